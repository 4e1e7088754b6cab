import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * RE2/J as Kafka uses it, asked over standard input; one line of JSON for each question.
 *
 * <pre>
 * [PATTERN, [TOPIC, ...]]  ->  a string of 0 and 1, one for each topic; or {"refused": DESCRIPTION}
 * </pre>
 */
public final class ExpressionCheck {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = MAPPER.readTree(line);
            Object answer;
            try {
                Pattern pattern = Pattern.compile(question.get(0).asText());
                StringBuilder matches = new StringBuilder();
                for (JsonNode topic : question.get(1)) {
                    matches.append(pattern.matcher(topic.asText()).matches() ? '1' : '0');
                }
                answer = matches.toString();
            } catch (PatternSyntaxException refused) {
                answer = MAPPER.createObjectNode().put("refused", refused.getDescription());
            }
            out.println(MAPPER.writeValueAsString(answer));
        }
        out.flush();
    }
}
