"""How many draws a property gets: the same ones each time, few enough for the interpreter."""

from hypothesis import HealthCheck, Phase, settings

# borders are checked once all draws are through, so that one guard may serve them
drawn_often = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    # a smaller case that fails would take minutes to find
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
