import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs a tool of package org.apache.kafka.tools.consumer.group, named by the argument, for each line of standard input,
 * whose words are separated by tabs. After what a command printed, errors too, comes a line of the character 30.
 */
public class GroupCommands {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        Exit.setExitProcedure((status, message) -> {
            throw new IllegalStateException("exit " + status + (message == null ? "" : ": " + message));
        });
        Method tool = Class.forName("org.apache.kafka.tools.consumer.group." + arguments[0])
                .getMethod("main", String[].class);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(said, true, StandardCharsets.UTF_8);
            System.setOut(both);
            System.setErr(both);
            try {
                tool.invoke(null, (Object) line.split("\t"));
            } catch (InvocationTargetException ended) {
                System.out.println(ended.getCause());
            }
            out.write(said.toByteArray());
            out.println("\n\u001e");
            out.flush();
        }
    }
}
