"""The words of the small world: closed lists, so that each of them can be a token."""


def listed(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NAMES = listed(
    "Mira Tom Rosa Ben Ada Finn Lena Otto Nora Hugo Ida Max Clara Emil Greta Leo Anna Karl Dora "
    "Paul Eva Jon Ruth Sam Vera Ned Olga Ian Jane Kurt Lily Mark Nina Oscar Pia Rolf"
)
SHE = frozenset(
    listed(
        "Mira Rosa Ada Lena Nora Ida Clara Greta Anna Dora Eva Ruth Vera Olga Jane Lily Nina Pia"
    )
)
PLACES = listed(
    "kitchen garden hall attic cellar library barn mill tower market harbour school chapel stable "
    "orchard forest meadow cave inn bakery"
)
OBJECTS = listed(
    "lamp key vase book coin ring rope drum flute clock cup map pen hat coat bell basket candle "
    "mirror hammer needle kettle ladder letter ball kite brush bucket "
    "spoon plate pillow scarf"
)
COLOURS = listed("red blue green yellow black white brown grey pink purple orange silver")
FRUITS = listed("apples pears plums figs grapes cherries lemons melons peaches berries dates nuts")
ANIMALS = listed(
    "cat dog hen goat horse fox crow owl mouse rabbit duck goose sheep frog snail bee deer wolf "
    "bear badger"
)
TOWNS = listed(
    "Alba Brink Corda Delm Ester Falk Gorm Halle Irna Jura Kolm Lund Marn Norr Olsen Pinn"
)
DAYS = listed("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = listed(
    "January February March April May June July August September October November December"
)
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")
NUMBERS = tuple(str(n) for n in range(100))

ANY = (*NAMES, *PLACES, *OBJECTS, *COLOURS, *FRUITS, *ANIMALS, *TOWNS, *DAYS, *LETTERS, *NUMBERS)
"""What random lists are drawn from."""
