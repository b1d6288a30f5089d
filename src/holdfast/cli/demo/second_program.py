"""`python -m holdfast.cli.demo.second_program`: it reads what the first act's program has kept."""

from __future__ import annotations

import argparse
from pathlib import Path

from holdfast import Environment
from holdfast.cli.demo.answer import ask
from holdfast.cli.demo.job_report import kept_by_others, kept_data
from holdfast.cli.demo.second_session import SecondAnswer, SecondHome
from holdfast.cli.demo.spark_session import local_session


def main() -> None:
    """Answers every question once. Nothing is cached, and nothing is warmed up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path, help="the folder with what is asked, for the answers")
    home = SecondHome(parser.parse_args().home)
    session = home.asked()
    story = session.story
    spark = local_session()
    spark.sparkContext.setLogLevel("ERROR")
    for key, value in story.settings.items():
        spark.conf.set(key, value)
    answers = []
    with Environment(spark, session.keeping) as env:
        shared = story.build(env)
        for question in story.questions:
            answer = ask(question, shared)
            result = env.last_job_result
            answers.append(SecondAnswer(answer, kept_data(result), kept_by_others(result)))
    home.answer(tuple(answers))
    spark.stop()


if __name__ == "__main__":
    main()
