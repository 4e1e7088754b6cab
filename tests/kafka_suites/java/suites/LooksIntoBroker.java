package suites;

/**
 * A test wants an object inside of a broker (a replica manager, a metric, a second broker) that a process apart does not
 * have. An Error, because Kafka's helpers try again after exceptions.
 */
public final class LooksIntoBroker extends Error {
    public LooksIntoBroker(String what) {
        super("looks into the broker: " + what);
    }
}
