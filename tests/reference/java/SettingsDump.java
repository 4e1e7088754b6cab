import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.AbstractKafkaConfig;

/** Prints every setting of the broker: name, type, default, range; one per line, separated by tabs. */
public class SettingsDump {
    public static void main(String[] args) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(AbstractKafkaConfig.CONFIG_DEF.configKeys()).values()) {
            Object value = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE ? "<none>" : key.defaultValue;
            System.out.println(key.name + "\t" + key.type + "\t" + value + "\t" + key.validator);
        }
    }
}
