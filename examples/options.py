"""Prices of options and their Greeks: derivatives up to second order, for a whole book at once.

Black and Scholes give the price of a European call in closed form ("The Pricing of Options and
Corporate Liabilities", Journal of Political Economy 81, 1973). Its derivatives are what a trader
hedges by: delta and gamma by the price of the stock, vega by its volatility, theta by time, vanna
by both. Here they are gradients of the price, and gradients of gradients; the closed forms of all
of them must agree.

    python examples/options.py

The last line says by how much they differ at most.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc as gx

Array = np.ndarray[Any, Any]


def call_price(
    stock: gx.Value, strike: gx.Value, rate: gx.Value, sigma: gx.Value, time: gx.Value
) -> gx.Value:
    """What a European call costs; all arguments have one shape."""
    spread = sigma * gx.sqrt(time)
    upper = (gx.log(stock / strike) + (rate + 0.5 * sigma * sigma) * time) / spread
    discounted = strike * gx.exp(-rate * time)
    return stock * gx.special.ndtr(upper) - discounted * gx.special.ndtr(upper - spread)


def greeks() -> tuple[gx.Graph, list[gx.Value], dict[str, gx.Value]]:
    """The graph, what it is fed, and the price with its derivatives."""
    with gx.Graph("options") as graph:
        names = ("stock", "strike", "rate", "sigma", "time")
        inputs = [gx.placeholder(("options",), "float64", name=name) for name in names]
        stock, _, _, sigma, time = inputs
        price = call_price(*inputs)
        delta, vega, decay = gx.gradients(price, [stock, sigma, time])
        # an option's price depends on nothing of other options, so that sums keep them apart
        gamma, vanna = gx.gradients(delta, [stock, sigma])
    found = {"price": price, "delta": delta, "vega": vega, "theta": -decay}
    return graph, inputs, found | {"gamma": gamma, "vanna": vanna}


def closed_forms(
    stock: Array, strike: Array, rate: Array, sigma: Array, time: Array
) -> dict[str, Array]:
    """The same by the formulas of textbooks, without the price."""
    spread = sigma * np.sqrt(time)
    upper = (np.log(stock / strike) + (rate + 0.5 * sigma**2) * time) / spread
    density = np.exp(-0.5 * upper**2) / np.sqrt(2 * np.pi)
    with gx.Graph():
        sides = gx.special.ndtr(gx.constant(np.stack([upper, upper - spread])))
        above, below = gx.Session(sides.graph).run(sides)
    return {
        "delta": above,
        "vega": stock * density * np.sqrt(time),
        "theta": -stock * density * sigma / (2 * np.sqrt(time))
        - rate * strike * np.exp(-rate * time) * below,
        "gamma": density / (stock * spread),
        "vanna": -density * (upper - spread) / sigma,
    }


def main() -> None:
    """Prints the Greeks of five options, and compares those of 10,000."""
    graph, inputs, values = greeks()
    random = np.random.default_rng(0)
    count = 10_000
    book = [
        random.uniform(80, 120, count),
        np.full(count, 100.0),
        random.uniform(0, 0.05, count),
        random.uniform(0.1, 0.5, count),
        random.uniform(0.1, 2, count),
    ]
    found = gx.Session(graph).run(values, dict(zip(inputs, book, strict=True)))
    print("   stock" + "".join(f"{name:>9}" for name in found))
    for row in range(5):
        print(f"{book[0][row]:8.2f}" + "".join(f"{value[row]:9.4f}" for value in found.values()))
    expected = closed_forms(*book)
    off = max(
        float(np.max(np.abs(found[name] - expected[name]) / (1 + np.abs(expected[name]))))
        for name in expected
    )
    print(f"Greeks of {count:,} options and their closed forms differ by at most {off:.0e}")


if __name__ == "__main__":
    main()
