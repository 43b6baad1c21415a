"""Logistic regression on real data: which tumours are malignant?

569 cases of the breast cancer data of scikit-learn, 30 measurements each, a stratified fifth held
out. Measurements are standardised inside the graph, from the mean and deviation of the training
cases, so the fitted program takes raw measurements. Training is gradient descent with Nesterov's
momentum over all cases at once, on the cross entropy and a small penalty on the weights.

    python examples/logistic.py

Prints the measurements that tell most; the last line is the accuracy on the held-out cases.
"""

from __future__ import annotations

import argparse

import numpy as np

import graphc as gx

SEED = 0
STEPS = 400
PENALTY = 1e-2


def main() -> None:
    """Fits the model, prints its most telling weights and the accuracy on the held-out cases."""
    argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0]).parse_args()
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    data = load_breast_cancer()
    malignant = (data.target == 0).astype(np.float64)
    measured, held_out, truth, held_out_truth = train_test_split(
        data.data, malignant, test_size=0.2, stratify=malignant, random_state=SEED
    )

    with gx.Graph("logistic") as graph:
        cases = gx.placeholder(("cases", measured.shape[1]), "float64", name="cases")
        labels = gx.placeholder(("cases",), "float64", name="labels")
        weights = gx.variable(np.zeros(measured.shape[1]), name="weights")
        bias = gx.variable(np.float64(0), name="bias")
        scores = ((cases - measured.mean(0)) / measured.std(0)) @ weights + bias
        # log(1 + exp(s)) − y s is the cross entropy of sigmoid(s), right for scores of any size.
        entropy = (gx.nn.softplus(scores) - labels * scores).mean()
        loss = entropy + PENALTY * gx.sum(weights * weights)
        train = gx.optim.SGD(0.1, momentum=0.9, nesterov=True).minimize(loss)
        probability = gx.nn.sigmoid(scores)

    with gx.Session(graph) as session:
        step = session.compile([train, entropy], [cases, labels])
        for number in range(1, STEPS + 1):
            _, now = step(measured, truth)
            if number == 1 or number % 100 == 0:
                print(f"step {number:4}  cross entropy {float(now):.4f}")
        fitted = session.get(weights)
        found = session.run(probability, {cases: held_out}) > 0.5
        constant = float(session.get(bias))

    print(f"\nbias {constant:+.3f}; weights that tell most (of standardised measurements):")
    for place in np.argsort(-np.abs(fitted))[:8]:
        direction = "malignant" if fitted[place] > 0 else "benign"
        print(f"  {fitted[place]:+.3f}  {data.feature_names[place]:<24} speaks for {direction}")
    accuracy = 100 * float((found == (held_out_truth > 0.5)).mean())
    print(f"\nheld-out accuracy: {accuracy:.1f} %")


if __name__ == "__main__":
    main()
