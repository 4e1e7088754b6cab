import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.TopicPartition;

/** What topics and groups of this run are called. */
class Names {
    static String one, two, three, absent, group, other, nobody;
    static TopicPartition first, second, missing;

    static void naming() {
        one = Surface.named("one");
        two = Surface.named("two");
        three = Surface.named("three");
        absent = Surface.named("absent");
        group = Surface.named("group");
        other = Surface.named("other");
        nobody = Surface.named("nobody");
        first = new TopicPartition(one, 0);
        second = new TopicPartition(one, 1);
        missing = new TopicPartition(absent, 0);
    }

    /** Without those of others. */
    static <Named> List<Named> mine(Iterable<Named> all) {
        List<Named> mine = new ArrayList<>();
        for (Named each : all) {
            if (String.valueOf(each).contains(Surface.arguments.get("prefix"))) mine.add(each);
        }
        return mine;
    }
}
