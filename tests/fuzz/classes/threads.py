"""Settings that another thread changes while a job runs."""

from __future__ import annotations

from random import Random

from tests.fuzz.classes.settings import changes, sensitive
from tests.fuzz.node import Node
from tests.fuzz.pair import start
from tests.fuzz.script import Build, Enter, Run, Script
from tests.fuzz.setting_values import weighty_setting

_SLOW = """
import time
from pyspark.sql.functions import udf
@udf("long")
def slowly(x):
    time.sleep(0.4)
    return x
spark.udf.register("slowly", slowly)
"""


def script(rng: Random, label: str) -> Script:
    """An inner result takes its time, and the outer one is computed under what is set then."""
    settings = [weighty_setting(rng) for _ in range(rng.choice([2, 4]))]
    texts = sensitive(rng, [key for key, _, _ in settings])
    columns = ", ".join(f'r"""{text} AS c{place}"""' for place, text in enumerate(texts))
    inner = Node('spark.sql("SELECT slowly(k) AS slow, * FROM wide WHERE k = 2")')
    outer = Node(f"inner.selectExpr('slow', {columns})")
    before, second = changes(settings)
    first = Enter("first", before)
    return Script(
        label,
        (
            start(rng, _SLOW.strip()),
            *(first, Build("inner", inner, cached=rng.random() < 0.9)),
            *(Build("a", outer, cached=True), Run("a", meanwhile=second)),
            *(first, Build("a_again", outer), Run("a_again", expects_read="after a change")),
            *(Enter("second", second), Build("b", outer), Run("b")),
        ),
    )
