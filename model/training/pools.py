"""Batches of a recipe, step by step: made a pool at a time, so that pages of a length can meet."""

from model.training.corpus import Batch, Corpus
from model.training.recipe import Recipe

POOL = 64
"""Steps whose batches are made at once."""


class Pools:
    """What each step reads. It depends on recipe and seed alone."""

    def __init__(self, corpus: Corpus, recipe: Recipe, seed: int) -> None:
        self.corpus, self.recipe, self.seed = corpus, recipe, seed
        self.name = ""
        self.made: list[tuple[Batch, ...]] = []

    def at(self, step: int) -> tuple[Batch, ...]:
        stage, within = self.recipe.stage_at(step)
        name = f"train/{self.seed}/{step - within}/{within // POOL}"
        if name != self.name:
            self.made = self.corpus.batches(name, POOL, stage.batch, stage.pos, stage.pages)
            self.name = name
        return self.made[within % POOL]
