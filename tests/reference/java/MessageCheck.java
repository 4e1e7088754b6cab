import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Kafka's generated message classes, asked over standard input; one line per question, fields separated by tabs.
 *
 * <pre>
 * both NAME VERSION HEX JSON  ->  HEX HEX true|false   what HEX and JSON are when written again, and whether they are equal
 * read NAME VERSION HEX       ->  HEX LEFT             what HEX is when written again, and how many bytes were not read
 * </pre>
 *
 * An exception is answered with "error", its class and its text.
 */
public final class MessageCheck {
    private static final String[] PLACES = {
        "org.apache.kafka.common.message.%sData",
        "org.apache.kafka.common.message.%s",
        "org.apache.kafka.coordinator.group.generated.%s",
        "org.apache.kafka.coordinator.transaction.generated.%s",
        "org.apache.kafka.coordinator.share.generated.%s",
        "org.apache.kafka.common.metadata.%s",
    };
    private static final HexFormat HEX = HexFormat.of();
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private final Map<String, Class<?>> classes = new HashMap<>();
    private final Map<String, Method> jsonReaders = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        MessageCheck check = new MessageCheck();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(check.answer(line.split("\t", -1)));
        }
        out.flush();
    }

    private String answer(String[] question) {
        try {
            short version = Short.parseShort(question[2]);
            ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(question[3]));
            Message read = read(question[1], version, bytes);
            String written = write(read, version);
            if (question[0].equals("read")) {
                return written + "\t" + bytes.remaining();
            }
            Message fromJson = fromJson(question[1], version, question[4]);
            return written + "\t" + write(fromJson, version) + "\t" + read.equals(fromJson);
        } catch (Throwable problem) {
            Throwable cause = problem.getCause() == null ? problem : problem.getCause();
            String text = String.valueOf(cause.getMessage()).replaceAll("\\s", " ");
            return "error\t" + cause.getClass().getSimpleName() + "\t" + text;
        }
    }

    private Class<?> classOf(String name) throws ClassNotFoundException {
        if (!classes.containsKey(name)) {
            for (String place : PLACES) {
                try {
                    classes.put(name, Class.forName(String.format(place, name)));
                    break;
                } catch (ClassNotFoundException elsewhere) {
                    // the next place
                }
            }
        }
        if (!classes.containsKey(name)) {
            throw new ClassNotFoundException(name);
        }
        return classes.get(name);
    }

    private Message read(String name, short version, ByteBuffer bytes) throws Exception {
        Message message = (Message) classOf(name).getDeclaredConstructor().newInstance();
        message.read(new ByteBufferAccessor(bytes), version);
        return message;
    }

    private Message fromJson(String name, short version, String json) throws Exception {
        Method reader = jsonReaders.get(name);
        if (reader == null) {
            Class<?> converter = Class.forName(classOf(name).getName() + "JsonConverter");
            reader = converter.getMethod("read", JsonNode.class, short.class);
            jsonReaders.put(name, reader);
        }
        return (Message) reader.invoke(null, MAPPER.readTree(json), version);
    }

    private static String write(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return HEX.formatHex(buffer.array(), 0, buffer.position());
    }
}
