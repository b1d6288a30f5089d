"""A driver that evaluates a line of Python at a time, and answers in JSON.

The fixture `start_driver` puts before it what every program on the cluster finds.
"""

# ruff: noqa: F821

import json
import logging
import sys
import time
import uuid

from pyspark.sql import functions as F

from holdfast import Environment

logging.basicConfig(level=logging.WARNING)
CONFIGURATION = {
    "taskexecutor.addresses": ",".join(task_executors),
    "taskexecutor.token-file": str(token_file),
    "heartbeat.interval": "500 ms",
    "heartbeat.timeout": LEASE,
    **SETTINGS,
}
env = Environment(spark, CONFIGURATION)


def numbers(rows=4000, parts=8):
    return spark.range(0, rows, 1, parts).select(
        "id", (F.col("id") % 7).alias("k"), F.sha2(F.col("id").cast("string"), 256).alias("w")
    )


def grouped():
    """As many partitions as a shuffle has, of any size."""
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    spark.conf.set("spark.sql.shuffle.partitions", "64")
    return numbers().groupBy("w").agg(F.max("id").alias("id"))


def rows(df):
    return sorted(tuple(row) for row in df.collect())


def outcomes(of=env):
    return [vertex.outcome.value for vertex in of.last_job_result.vertices]


def share(url):
    """Another environment, whose results others find, and whose jobs aren't recovered."""
    alone = {"execution.batch.job-recovery.enabled": False, "catalog.url": url}
    globals()["other"] = Environment(spark, CONFIGURATION | alone)


def hosts():
    kept = env.last_job_result.persistent_result_partitions.descriptors
    locations = [each.location for partitions in kept.values() for each in partitions]
    return sorted({location.split("/")[2].split(":")[0] for location in locations})


def incomplete():
    return len(env.last_job_result.persistent_result_partitions.incomplete)


def localities(act):
    context = spark.sparkContext
    context.addJobTag("measured")
    act()
    context.removeJobTag("measured")
    scala = context._jsc.sc()
    scala.listenerBus().waitUntilEmpty()
    store = scala.statusStore()
    found = {}
    jobs = store.jobsList(None)
    for number in range(jobs.size()):
        job = jobs.apply(number)
        if job.jobTags().contains("measured"):
            for stage in [job.stageIds().apply(i) for i in range(job.stageIds().size())]:
                tasks = store.taskList(stage, 0, 1000)
                for index in range(tasks.size()):
                    task = tasks.apply(index)
                    if task.taskMetrics().get().inputMetrics().recordsRead() > 0:
                        found.setdefault(task.taskLocality(), []).append(task.host())
    return found


def jobs(act):
    """How many Spark jobs it takes."""
    context = spark.sparkContext
    tag = uuid.uuid4().hex
    context.addJobTag(tag)
    act()
    context.removeJobTag(tag)
    scala = context._jsc.sc()
    scala.listenerBus().waitUntilEmpty()
    found = scala.statusStore().jobsList(None)
    return sum(found.apply(i).jobTags().contains(tag) for i in range(found.size()))


def summed(df):
    return df.groupBy("k").agg(F.count("*"), F.max("w"))


def executors():
    # The driver itself is one of them.
    return spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1


def slowly(df, seconds=20):
    return df.mapInPandas(lambda it: (time.sleep(seconds) or each for each in it), df.schema)


def slowly_joined(name, path, seconds):
    """A job that keeps a table first, and then shuffles what takes a while for each file."""
    every_file_alone()
    df = spark.read.parquet(path)
    globals()[name] = env.from_dataframe(df.groupBy("k").agg(F.sum("id").alias("s"))).cache()
    counted = slowly(df, seconds).groupBy("k").agg(F.count("w").alias("n"))
    return rows(globals()[name].join(counted, "k"))


def every_file_alone():
    """From now on, each file is read by its own task."""
    for each in ("maxPartitionBytes", "openCostInBytes"):
        spark.conf.set(f"spark.sql.files.{each}", "64k")


def summed_by_job(df):
    grouped = df.groupBy("k").agg(F.sum("id").alias("s"), F.count("w").alias("n"))
    return rows(env.from_dataframe(grouped))


def summed_slowly(path, seconds):
    """A job that shuffles what takes a map task a while for each file."""
    every_file_alone()
    return summed_by_job(slowly(spark.read.parquet(path), seconds))


def broadcast_slowly(path, seconds):
    """The same rows, from a join with what each task collects for a while."""
    every_file_alone()
    read = spark.read.parquet(path)
    few = F.broadcast(slowly(read.select("id"), seconds))
    return summed_by_job(slowly(read, seconds).join(few, "id"))


def remember_stream(name):
    pairs = env.from_collection(range(4000)).set_parallelism(8).map(lambda i: (i % 7, i))
    globals()[name] = pairs.set_parallelism(8).cache()
    return sums(globals()[name])


def sums(pairs):
    summed = pairs.key_by(lambda pair: pair[0]).sum(1)
    with summed.execute_and_collect() as records:
        return sorted(records) == [(k, sum(range(k, 4000, 7))) for k in range(7)]


def lazily(name, df):
    globals()[name] = env.from_dataframe(df).cache()
    return True


def remember(name, df):
    lazily(name, df)
    return rows(globals()[name]) == rows(df)


def source(path):
    """What programs have in common: files that both nodes see."""
    if not Path(path).exists():
        numbers().write.parquet(path)
    return spark.read.parquet(path).select("id", F.concat("w", F.lit("!")).alias("v"))


def is_right(table, path):
    return rows(table) == rows(source(path))


print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    print(json.dumps(eval(line)), flush=True)
env.close()
spark.stop()
