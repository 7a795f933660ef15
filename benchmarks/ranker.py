"""Recall of the longest responses, predicted from the prompts alone: rollplan's ranker on GSM8K, beside chance and StreamRL.

Questions of GSM8K (openai/grade-school-math, MIT; CSV with the columns `question` and `answer_words`), and answers of four
language models to its test questions (`question`, `model`, `output_words`). Lengths are words. Split 7:2:1 by question;
recall of the longest 20, 10 and 5 % of the test part. It has few questions for the models' answers, so seeds are
pooled: `mean` is over the seeds, and its error is their spread, which is too small where test parts overlap.

`trees` needs scikit-learn: boosted trees on the same surface features and 50 components of tf-idf, same split.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path
from statistics import fmean, stdev

import numpy as np

from rollplan.models.dispatch.recall import RANKER_RECALL
from rollplan.models.profile.lengths import Ranker
from rollplan.profilers.lengths.features import SURFACE
from rollplan.profilers.lengths.gather import gather
from rollplan.profilers.lengths.ranker import part_of, train_ranker
from rollplan.profilers.lengths.recall import SHARES, recall
from rollplan.profilers.lengths.samples import Sample

Answers = list[tuple[str, int]]


def read(prompts: Path, outputs: Path | None) -> dict[str, Answers]:
    """Return questions and answer lengths of people and of each model."""
    found: dict[str, Answers] = defaultdict(list)
    with prompts.open(encoding="utf-8", newline="") as file:
        found["people"] = [(row["question"], int(row["answer_words"])) for row in csv.DictReader(file)]
    if outputs is not None:
        with outputs.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                found[row["model"]].append((row["question"], int(row["output_words"])))
    return found


def linear(answers: Answers, seed: int) -> Ranker:
    samples = (Sample(words, question, question, None, None) for question, words in answers)
    return train_ranker(gather(samples, Path("answers"), keep_texts=True), Path("answers"), seed)


def trees(answers: Answers, seed: int) -> list[float]:
    """Return the recalls of boosted trees."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.feature_extraction.text import TfidfVectorizer

    answers = [(question, words) for question, words in answers if words > 0]
    questions = [question for question, _ in answers]
    logs = np.log([words for _, words in answers])
    part = np.array([part_of(question, seed) for question in questions])
    terms = TfidfVectorizer(ngram_range=(1, 2), min_df=3, sublinear_tf=True, max_features=5000)
    learned = [question for question, place in zip(questions, part, strict=True) if place == 0]
    few = TruncatedSVD(50, random_state=0).fit(terms.fit_transform(learned))
    surface = np.array([[feature(question) for feature in SURFACE.values()] for question in questions])
    features = np.hstack([few.transform(terms.transform(questions)), surface])
    model = HistGradientBoostingRegressor(max_iter=150, learning_rate=0.05, max_leaf_nodes=8, random_state=0)
    guesses = model.fit(features[part == 0], logs[part == 0]).predict(features[part == 2])
    return [recall(logs[part == 2], guesses, share) for share in SHARES]


def line(name: str, test: str, values: list[list[float]]) -> str:
    columns = list(zip(*values, strict=True))
    shown = [f"{fmean(column):.2f} +- {stdev(column) / len(column) ** 0.5 if len(column) > 1 else 0:.2f}" for column in columns]
    return f"{name:<28}{test:>6}" + "".join(f"{text:>19}" for text in shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--outputs", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trees", action="store_true", help="boosted trees beside the linear ranker")
    options = parser.parse_args()
    print(f"{'':<28}{'test':>6}" + "".join(f"{f'longest {share:.0%}':>19}" for share in SHARES))
    for name, answers in read(options.prompts, options.outputs).items():
        found = [linear(answers, seed) for seed in range(options.seeds)]
        first = found[0]
        print(
            f"{name + ', seed 0':<28}{first.test:>6}"
            + "".join(f"{f'{each.recall:.2f} ({each.low:.2f}-{each.high:.2f})':>19}" for each in first.recalls)
        )
        better = sum(each.recalls[0].better_than_chance for each in found)
        print(
            line("  mean over seeds", "", [[each.recall for each in ranker.recalls] for ranker in found]) + f"   {better} of {len(found)}"
        )
        if options.trees:
            print(line("  trees", "", [trees(answers, seed) for seed in range(options.seeds)]))
    print(f"{'chance':<34}" + "".join(f"{share:>19.2f}" for share in SHARES))
    for size, recalls in RANKER_RECALL.items():
        print(f"{f'StreamRL {size}, its own data':<34}" + "".join(f"{recalls[share]:>19.2f}" for share in SHARES))


if __name__ == "__main__":
    main()
