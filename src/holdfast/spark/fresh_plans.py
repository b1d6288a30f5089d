"""Copies of plans that nothing has been made of yet.

Expressions hold on to what they have made of the settings that they first ran under, relations to
the session that they were made in, and Spark reads what it has cached wherever a plan looks like
that, whatever is in the files by now. A production must depend on none of it: its result is found
again by the plan, the versions of files, and the settings that the job runs under.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from holdfast.spark.cache_entries import cached_by_spark
from holdfast.spark.java_classes import new_object
from holdfast.spark.per_context import PerContext
from holdfast.spark.plan_reader import PlanReader

# An option of what is read, and a text that is compared with itself.
_MARK = "holdfast.production"


class FreshPlans:
    """Copies the plans of one JVM. Safe for use by several threads.

    Args:
        spark: a classic session in the JVM.

    Raises:
        UnsupportedSparkError: when the JVM's Spark isn't one whose plans can be copied.
    """

    def __init__(self, spark: SparkSession) -> None:
        salt_tag = PlanReader.of(spark).salt_tag
        self._in_jvm: Any = new_object(spark, "FreshPlans", _MARK, salt_tag, cached_by_spark(spark))

    @staticmethod
    def of(spark: SparkSession) -> FreshPlans:
        """What copies the plans of `spark`'s JVM."""
        return _fresh_plans.of(spark)

    def copied(self, plan: Any, session: Any) -> Any:
        """A copy of a plan, with nothing made of settings yet. Runs nothing.

        Args:
            plan: the JVM's plan.
            session: the JVM's session that is to run it.

        Returns:
            the copy; its nodes have the salts of the plan's.
        """
        return self._in_jvm.copied(plan, session)

    def dealt(self, plan: Any, owner: Any, session: Any) -> Any:
        """A copy whose files are dealt to tasks by the settings of another session. Runs nothing.

        Args:
            plan: the JVM's plan.
            owner: the JVM's session that it is of.
            session: the JVM's session that is to run it.
        """
        return self._in_jvm.dealt(plan, owner, session)

    def detached(self, plan: Any, owner: Any, session: Any) -> Any:
        """A copy that depends on no other session, and on nothing that Spark has cached.

        Spark's cache is read for what matches only itself, and for nothing else: there another run
        may give other rows than the user has seen. Runs nothing.

        Args:
            plan: the JVM's plan.
            owner: the JVM's session that it is of.
            session: the JVM's session that is to run it.
        """
        return self._in_jvm.detached(plan, owner, session)

    @property
    def copies(self) -> Any:
        """The JVM's function that does what `copied` does, for those who salt no node."""
        return self._in_jvm

    def is_whole(self, plan: Any) -> bool:
        """Whether a part of a plan can be run by itself.

        Args:
            plan: the JVM's plan, a node of another one.
        """
        return bool(self._in_jvm.isWhole(plan))


_fresh_plans = PerContext(FreshPlans)
