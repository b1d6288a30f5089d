package holdfast;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import org.apache.spark.SparkContext;
import org.apache.spark.rpc.RpcEndpointRef;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerBlockManagerRemoved;
import org.apache.spark.storage.BlockManager;
import org.slf4j.LoggerFactory;

/**
 * Has a local Spark's only executor registered again once Spark has taken it for lost.
 *
 * It is taken for lost when an output of a shuffle can't be read. Executors of a cluster register
 * again with their next heartbeat. In local mode that asks a scheduler that isn't there, and the
 * JVM ends with the 60th heartbeat that has failed, ten minutes later.
 */
public final class LocalExecutor extends SparkListener {
    final SparkContext context;

    public LocalExecutor(SparkContext context) {
        this.context = context;
    }

    /** From now on it is registered again, where this Spark is a local one. */
    public void watch() {
        if (context.isLocal()) {
            context.addSparkListener(this);
        }
    }

    public void onBlockManagerRemoved(SparkListenerBlockManagerRemoved removed) {
        if (!removed.blockManagerId().isDriver() || context.isStopped()) {
            return;
        }
        try {
            BlockManager own = blockManager();
            own.master().registerBlockManager(
                own.blockManagerId(),
                own.diskBlockManager().localDirsString(),
                ((Long) of(own, "maxOnHeapMemory")).longValue(),
                ((Long) of(own, "maxOffHeapMemory")).longValue(),
                (RpcEndpointRef) of(own, "storageEndpoint"),
                false);
        } catch (Throwable error) {
            LoggerFactory.getLogger(LocalExecutor.class).warn(
                "Spark has lost an output of a shuffle, and may end in ten minutes", error);
        }
    }

    private static Object of(BlockManager own, String name) throws Exception {
        Method method = BlockManager.class.getDeclaredMethod(name, new Class[0]);
        method.setAccessible(true);
        return method.invoke(own, new Object[0]);
    }

    // SparkEnv can't be compiled against: some of its methods take classes that Spark hides.
    private static BlockManager blockManager() throws Throwable {
        ClassLoader loader = SparkContext.class.getClassLoader();
        Class environment = Class.forName("org.apache.spark.SparkEnv", true, loader);
        MethodHandles.Lookup lookup = MethodHandles.publicLookup();
        Object current = lookup.findStatic(environment, "get", MethodType.methodType(environment))
            .invokeWithArguments(new Object[0]);
        MethodType type = MethodType.methodType(BlockManager.class);
        return (BlockManager) lookup.findVirtual(environment, "blockManager", type)
            .invokeWithArguments(new Object[] {current});
    }
}
