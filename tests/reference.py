"""The Ladder Network in float64 NumPy, written from the paper: it shares no code with laddernet.

Equation numbers count the numbered lines of "Deconstructing the Ladder Network Architecture" in order:
(1)-(3) the three passes, (4)-(5) cost, (6)-(10) encoder, (11)-(15) decoder, (16) vanilla combinator, (17) its
initial values, (18) ReconsCost, (19) Linear, (20)-(22) Gaussian, (23) GatedGauss, (24) LReLU, (25) MLP.

The paper writes columns (W . h); here rows are examples, so that is `h @ W`. Lists run over l = 0..L (in the
code `ell`), 0 being the input.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

EPSILON = 1e-10  # added to a variance, so that a constant column divides by 1e-5 and not by 0

MODEL_IDS = (
    "baseline", "baseline-noise", "vanilla",
    "first-noise", "first-recons", "first-noise-recons", "no-lateral",
    "rand-init", "rev-init", "no-sig", "no-mult", "linear",
    "gaussian", "gated-gauss",
    "mlp-4", "mlp-2-2", "mlp-2-2-2", "amlp-4", "amlp-2-2", "amlp-2-2-2",
)  # fmt: skip
NO_DECODER = ("baseline", "baseline-noise")
NOISE_NOWHERE = ("baseline",)
NOISE_AT_INPUT_ONLY = ("first-noise", "first-noise-recons", "no-lateral")
RECONS_AT_INPUT_ONLY = ("first-recons", "first-noise-recons", "no-lateral")
# These differ from vanilla in noise, lambda or initial values; their combinator is (16) as it stands.
VANILLA_COMBINATOR = ("vanilla", "first-noise", "first-recons", "first-noise-recons", "rand-init", "rev-init")


def sigmoid(a: Array) -> Array:
    return np.exp(-np.logaddexp(0.0, -a))  # 1 / (1 + exp(-a)), without overflow


def lrelu(a: Array) -> Array:
    return np.where(a >= 0, a, 0.1 * a)  # (24)


def log_softmax(a: Array) -> Array:
    return a - np.logaddexp.reduce(a, axis=1, keepdims=True)


def statistics(a: Array) -> tuple[Array, Array]:
    """mean and stdv over the rows of a batch: (7) and (8), (12) and (13)."""
    mu = a.mean(axis=0)
    var = ((a - mu) ** 2).mean(axis=0)
    return mu, np.sqrt(var + EPSILON)


def normalise(a: Array) -> Array:
    mu, sigma = statistics(a)
    return (a - mu) / sigma


def combinator(model_id: str, p: dict, z_tilde: Array, u: Array) -> Array:
    """g(z_tilde, u), element by element: column i of the result needs only column i of z_tilde and of u."""
    z = z_tilde
    if model_id in VANILLA_COMBINATOR:  # (16)
        linear_path = p["b0"] + p["w0z"] * z + p["w0u"] * u + p["w0zu"] * z * u
        sigmoid_path = sigmoid(p["b1"] + p["w1z"] * z + p["w1u"] * u + p["w1zu"] * z * u)
        return linear_path + p["wsigma"] * sigmoid_path
    if model_id == "no-lateral":  # (16) without any term in z
        return p["b0"] + p["w0u"] * u + p["wsigma"] * sigmoid(p["b1"] + p["w1u"] * u)
    if model_id == "no-sig":  # (16) without the sigmoid path
        return p["b0"] + p["w0z"] * z + p["w0u"] * u + p["w0zu"] * z * u
    if model_id == "no-mult":  # (16) without z * u, in both paths
        linear_path = p["b0"] + p["w0z"] * z + p["w0u"] * u
        return linear_path + p["wsigma"] * sigmoid(p["b1"] + p["w1z"] * z + p["w1u"] * u)
    if model_id == "linear":  # (19)
        return p["b"] + p["wu"] * u + p["wz"] * z
    if model_id in ("gaussian", "gated-gauss"):
        mu = p["w1"] * sigmoid(p["w2"] * u + p["w3"]) + p["w4"] * u + p["w5"]  # (21)
        if model_id == "gaussian":
            nu = p["w6"] * sigmoid(p["w7"] * u + p["w8"]) + p["w9"] * u + p["w10"]  # (22)
        else:
            nu = sigmoid(p["w6"] * u + p["w7"])  # (23)
        return nu * z + (1 - nu) * mu  # (20)
    if model_id.startswith("mlp-"):
        return element_wise_mlp(model_id, p, [u, z])
    if model_id.startswith("amlp-"):
        return element_wise_mlp(model_id, p, [u, z, u * z])
    raise ValueError(f"{model_id} has no combinator")


def element_wise_mlp(model_id: str, p: dict, inputs: list[Array]) -> Array:
    """(25): LReLU hidden layers of the sizes that the id names, then a linear layer of one output.

    W[k][i, j] and b[k][j] are arrays over the units: each unit of the layer has a small MLP of its own.
    """
    sizes = [len(inputs)] + [int(size) for size in model_id.split("-")[1:]] + [1]
    assert len(p["W"]) == len(p["b"]) == len(sizes) - 1, model_id
    values = inputs
    for k, (W, b) in enumerate(zip(p["W"], p["b"], strict=True)):
        assert W.shape[:2] == (sizes[k], sizes[k + 1]), model_id
        assert b.shape[:1] == (sizes[k + 1],), model_id
        outputs = []
        for j in range(sizes[k + 1]):
            a = np.zeros_like(inputs[0]) + b[j]
            for i in range(sizes[k]):
                a = a + W[i, j] * values[i]
            outputs.append(a if k == len(sizes) - 2 else lrelu(a))
        values = outputs
    return values[0]


def encoder(weights: dict, x: Array, noise: list, noise_std: list) -> dict:
    """(6)-(10), which is pass (1), or pass (2) where every entry of `noise` is None."""
    layers = weights["encoder"]
    L = len(layers)

    def corrupted(a: Array, ell: int) -> Array:
        return a if noise[ell] is None else a + noise_std[ell] * noise[ell]

    z = [corrupted(np.asarray(x, dtype=np.float64), 0)]
    h: list[Array] = [z[0]]
    z_pre: list[Array | None] = [None]  # the input is not normalised
    mu: list[Array | None] = [None]
    sigma: list[Array | None] = [None]
    for ell in range(1, L + 1):
        W, gamma, beta = layers[ell - 1]["W"], layers[ell - 1]["gamma"], layers[ell - 1]["beta"]
        a = h[ell - 1] @ W  # (6)
        mu_l, sigma_l = statistics(a)  # (7), (8)
        z.append(corrupted((a - mu_l) / sigma_l, ell))  # (9)
        h.append(activation(gamma * (z[ell] + beta), top=ell == L))  # (10)
        z_pre.append(a)
        mu.append(mu_l)
        sigma.append(sigma_l)
    return {"z": z, "h": h, "mu": mu, "sigma": sigma, "z_pre": z_pre}


def activation(a: Array, top: bool) -> Array:
    """phi of (10): ReLU, softmax at the top."""
    return np.exp(log_softmax(a)) if top else np.maximum(a, 0.0)


def clean_encoder(weights: dict, x: Array) -> dict:
    nothing = [None] * (len(weights["encoder"]) + 1)
    return encoder(weights, x, nothing, nothing)


def decoder(model_id: str, weights: dict, z_tilde: list, y_tilde: Array) -> dict:
    """(11)-(15), from l = L down to 0. u[ell] is what layer l receives, which the paper writes u^(l+1)."""
    layers = weights["decoder"]
    L = len(layers) - 1
    u: list = [None] * (L + 1)
    z_hat: list = [None] * (L + 1)
    for ell in range(L, -1, -1):
        u_pre = y_tilde if ell == L else z_hat[ell + 1] @ layers[ell]["V"]  # (11)
        u[ell] = normalise(u_pre)  # (12)-(14)
        z_hat[ell] = combinator(model_id, layers[ell]["combinator"], z_tilde[ell], u[ell])  # (15)
    return {"u": u, "z_hat": z_hat}


def costs(
    model_id: str,
    weights: dict,
    x_labelled: Array,
    y_labelled: NDArray[np.int64],
    x_unlabelled: Array,
    noise_labelled: list,
    noise_unlabelled: list,
    noise_std: list,
    recon_weights: list,
) -> dict:
    """(4) and (5), each a mean instead of a sum, and l from 0. `y_labelled` holds class numbers."""
    if model_id not in MODEL_IDS:
        raise ValueError(f"no such model: {model_id}")
    top = weights["encoder"][-1]

    labelled = encoder(weights, x_labelled, noise_of(model_id, noise_labelled), noise_std)
    log_p = log_softmax(top["gamma"] * (labelled["z"][-1] + top["beta"]))
    cross_entropy = -float(np.mean([log_p[n, y_labelled[n]] for n in range(len(log_p))]))  # (4)

    noisy = encoder(weights, x_unlabelled, noise_of(model_id, noise_unlabelled), noise_std)  # (1)
    clean = clean_encoder(weights, x_unlabelled)  # (2)
    decoded: dict = {"u": [], "z_hat": []}
    if model_id not in NO_DECODER:
        decoded = decoder(model_id, weights, noisy["z"], noisy["h"][-1])  # (3)

    reconstruction = []
    total = cross_entropy
    for ell, z_hat in enumerate(decoded["z_hat"]):
        if ell > 0:  # with the clean encoder's statistics, of the same rows
            z_hat = (z_hat - clean["mu"][ell]) / clean["sigma"][ell]
        recons_cost = float(np.mean((z_hat - clean["z"][ell]) ** 2))  # (18), over rows and units
        lambda_l = 0.0 if ell > 0 and model_id in RECONS_AT_INPUT_ONLY else recon_weights[ell]
        reconstruction.append(recons_cost)
        total += float(lambda_l) * recons_cost  # (5)
    return {
        "cross_entropy": cross_entropy, "reconstruction": reconstruction, "total": total,
        "labelled": labelled, "noisy": noisy, "clean": clean, "decoder": decoded,
    }  # fmt: skip


def noise_of(model_id: str, noise: list) -> list:
    """The noise arrays with None wherever the model adds no noise."""
    if model_id in NOISE_NOWHERE:
        return [None for _ in noise]
    if model_id in NOISE_AT_INPUT_ONLY:
        return [noise[0]] + [None for _ in noise[1:]]
    return noise


def predict(weights: dict, x: Array, x_train: Array) -> Array:
    """Class probabilities of the clean path, normalised with the statistics of x_train's clean pass."""
    train = clean_encoder(weights, x_train)
    layers = weights["encoder"]
    h = np.asarray(x, dtype=np.float64)
    for ell, layer in enumerate(layers, start=1):
        z = (h @ layer["W"] - train["mu"][ell]) / train["sigma"][ell]
        h = activation(layer["gamma"] * (z + layer["beta"]), top=ell == len(layers))
    return h


def initial(model_id: str) -> dict[str, float]:
    """The value every element of a combinator parameter starts at, where that is a constant."""
    vanilla = {"b0": 0.0, "w0z": 1.0, "w0u": 0.0, "w0zu": 0.0, "wsigma": 1.0,
               "b1": 0.0, "w1z": 1.0, "w1u": 0.0, "w1zu": 0.0}  # (17)  # fmt: skip
    if model_id in ("vanilla", "first-noise", "first-recons", "first-noise-recons"):
        return vanilla
    if model_id == "rev-init":
        return {**vanilla, "w0z": 0.0, "w1z": 0.0, "w0u": 1.0, "w1u": 1.0}
    if model_id == "no-sig":
        return {name: vanilla[name] for name in ("b0", "w0z", "w0u", "w0zu")}
    if model_id == "no-mult":
        return {name: vanilla[name] for name in ("b0", "w0z", "w0u", "wsigma", "b1", "w1z", "w1u")}
    if model_id == "linear":
        return {"b": 0.0, "wu": 0.0, "wz": 1.0}
    if model_id == "gaussian":
        return {f"w{k}": 1.0 if k in (2, 7) else 0.0 for k in range(1, 11)}
    raise ValueError(f"{model_id} has no constant initial values")
