package org.apache.kafka.common.test.junit;

import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.server.common.MetadataVersion;

import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.LifecycleMethodExecutionExceptionHandler;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.opentest4j.TestAbortedException;

import java.util.List;

import suites.DaemonCluster;

/**
 * Takes the place of Kafka's class of this name: each invocation of a `@ClusterTest` gets a coordinatord. A test that
 * looks into the broker, or needs other feature levels, is aborted, with what it wanted.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String baseDisplayName;
    private final ClusterConfig config;
    private final boolean isCombined;

    public RaftClusterInvocationContext(String baseDisplayName, ClusterConfig config, boolean isCombined) {
        this.baseDisplayName = baseDisplayName;
        this.config = config;
        this.isCombined = isCombined;
    }

    @Override
    public String getDisplayName(int invocationIndex) {
        return String.format("%s [%d] Type=Raft-%s, %s", baseDisplayName, invocationIndex,
            isCombined ? "Combined" : "Isolated", String.join(",", config.displayTags()));
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        DaemonCluster cluster = new DaemonCluster(config, isCombined ? Type.CO_KRAFT : Type.KRAFT);
        return List.of(
            (BeforeEachCallback) context -> {
                requireDefaultFeatures();
                Exit.setExitProcedure((status, message) -> { // of a tool that fails: the other tests are still played
                    throw new AssertionError("exit status " + status + ": " + message);
                });
                if (config.isAutoStart()) cluster.start();
            },
            new Aborting(cluster),
            (AfterTestExecutionCallback) context -> cluster.stop(),
            (AfterEachCallback) context -> cluster.stop(),
            new ClusterInstanceParameterResolver(cluster));
    }

    private void requireDefaultFeatures() {
        if (config.metadataVersion() != MetadataVersion.latestTesting())
            throw new TestAbortedException("needs metadata.version " + config.metadataVersion());
        config.features().forEach((feature, level) -> {
            if (feature.defaultLevel(MetadataVersion.latestTesting()) != level)
                throw new TestAbortedException("needs " + feature.featureName() + "=" + level);
        });
    }

    private record Aborting(DaemonCluster cluster)
            implements TestExecutionExceptionHandler, LifecycleMethodExecutionExceptionHandler {
        @Override
        public void handleTestExecutionException(ExtensionContext context, Throwable thrown) throws Throwable {
            if (cluster.refused() != null) throw new TestAbortedException(cluster.refused().getMessage(), thrown);
            throw thrown;
        }

        @Override
        public void handleBeforeEachMethodExecutionException(ExtensionContext context, Throwable thrown) throws Throwable {
            handleTestExecutionException(context, thrown);
        }
    }
}
