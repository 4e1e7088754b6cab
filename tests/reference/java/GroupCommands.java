import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.internals.Exit;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

/**
 * Runs kafka-consumer-groups for each line of standard input, whose words are separated by tabs. After what a command
 * printed comes a line of the character 30.
 */
public class GroupCommands {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        Exit.setExitProcedure((status, message) -> {
            throw new IllegalStateException("exit " + status + (message == null ? "" : ": " + message));
        });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
            try {
                ConsumerGroupCommand.main(line.split("\t"));
            } catch (RuntimeException ended) {
                System.out.println(ended);
            }
            out.write(said.toByteArray());
            out.println("\n\u001e");
            out.flush();
        }
    }
}
