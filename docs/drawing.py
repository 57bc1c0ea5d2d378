"""The drawing of a Ladder Network, as SVG: the same bytes everywhere."""

NOISY, CLEAN, DECODER, COST, INK = "#B84A00", "#00609C", "#00785A", "#8A2C5E", "#222222"
LEFT, MIDDLE, RIGHT = 190, 450, 710  # the centres of the three columns
LAYERS = {2: 150, 1: 275, 0: 400}  # the height of each layer, the top one first
HALF_WIDTH, HALF_HEIGHT = 62, 24  # of a box
RADIUS = 24  # of a combinator


def ladder() -> str:
    """Draw the noisy path, the decoder with its combinators, the clean path and the costs, of two layers."""
    parts = [_heading(LEFT, NOISY, "Noisy path", "encoder with noise")]
    parts += [_heading(MIDDLE, DECODER, "Decoder", "removes the noise, from the top down")]
    parts += [_heading(RIGHT, CLEAN, "Clean path", "the same encoder without noise")]
    for layer, y in LAYERS.items():
        parts += _layer(layer, y)
    for below, above in ((0, 1), (1, 2)):
        start, end = LAYERS[below] - HALF_HEIGHT, LAYERS[above] + HALF_HEIGHT
        for x, colour in ((LEFT, NOISY), (RIGHT, CLEAN)):
            parts.append(_arrow(x, start, x, end, colour))
            parts.append(_text(x + 10, (start + end) / 2 + 4, _encoder_step(below), 13, colour, "start"))
        parts.append(_arrow(MIDDLE, LAYERS[above] + RADIUS, MIDDLE, LAYERS[below] - RADIUS, DECODER))
        parts.append(_text(MIDDLE + 10, (start + end) / 2 + 4, _power("u", below), 15, DECODER, "start", italic=True))
        parts.append(_text(MIDDLE - 10, (start + end) / 2 + 4, _power("V", below), 13, DECODER, "end"))
    parts += _top() + _bottom()
    body = "\n".join(parts)
    markers = "".join(
        f'<marker id="{colour[1:]}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0L10 5L0 10z" fill="{colour}"/></marker>'
        for colour in (NOISY, CLEAN, DECODER, COST, INK)
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 560" width="900" height="560" '
        "font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n"
        "<title>A Ladder Network with an input and two layers</title>\n"
        f"<defs>{markers}</defs>\n"
        '<rect x="0.5" y="0.5" width="899" height="559" rx="8" fill="#FFFFFF" stroke="#DDDDDD"/>\n'
        f"{body}\n</svg>\n"
    )


def _heading(x: int, colour: str, title: str, subtitle: str) -> str:
    return _text(x, 34, title, 18, colour, weight="bold") + _text(x, 54, subtitle, 13, "#555555")


def _encoder_step(below: int) -> str:
    weights = _power("W", below + 1)
    return f"ReLU, {weights}" if below else weights  # the input has no activation function


def _layer(layer: int, y: int) -> list[str]:
    """Draw a layer: its noisy activations, its combinator, its clean activations and what joins them."""
    noisy = _box(LEFT, y, NOISY) + _text(LEFT, y + 6, _power("z\u0303", layer), 18, NOISY, italic=True)
    clean = _box(RIGHT, y, CLEAN) + _text(RIGHT, y + 6, _power("z", layer), 18, CLEAN, italic=True)
    combinator = (
        f'<circle cx="{MIDDLE}" cy="{y}" r="{RADIUS}" fill="#E3F4EE" stroke="{DECODER}" stroke-width="2"/>'
        + _text(MIDDLE, y + 6, _power("g", layer), 18, DECODER, italic=True)
    )
    noise = _arrow(52, y, LEFT - HALF_WIDTH, y, NOISY) + _text(84, y - 8, "noise", 13, NOISY)
    lateral = _arrow(LEFT + HALF_WIDTH, y, MIDDLE - RADIUS, y, NOISY)
    lateral += _text((LEFT + HALF_WIDTH + MIDDLE - RADIUS) / 2, y - 8, "lateral", 13, NOISY)
    start, end = MIDDLE + RADIUS, RIGHT - HALF_WIDTH
    cost = (
        f'<path d="M{start} {y}H{end}" stroke="{COST}" stroke-width="2" stroke-dasharray="6 4" fill="none"/>'
        + _text(
            (start + end) / 2, y - 9, f"{_power('λ', layer)} ‖{_power('ẑ', layer)} − {_power('z', layer)}‖²", 15, COST
        )
    )
    return [noisy, clean, combinator, noise, lateral, cost]


def _top() -> list[str]:
    """Draw what comes of the top layer: the classification cost, the decoder's first input and the prediction."""
    y, arrow = 96, LAYERS[2] - HALF_HEIGHT
    label = f'<tspan fill="{COST}">cross entropy with the label</tspan>'
    # The decoder starts from the noisy class probabilities.
    return [
        _arrow(LEFT, arrow, LEFT, y + 8, NOISY),
        _text(LEFT, y, f"ỹ = softmax: {label}", 14, NOISY),
        f'<path d="M{LEFT + 8} {y + 18}H{MIDDLE}V{LAYERS[2] - RADIUS - 2}" stroke="{DECODER}" stroke-width="2" '
        f'fill="none" marker-end="url(#{DECODER[1:]})"/>',
        _text(MIDDLE + 10, y + 24, _power("u", 2), 15, DECODER, "start", italic=True),
        _arrow(RIGHT, arrow, RIGHT, y + 8, CLEAN),
        _text(RIGHT, y, "y = softmax: prediction", 14, CLEAN),
    ]


def _bottom() -> list[str]:
    """Draw the input, which both paths get, and the sum of the costs."""
    y, from_below = 468, LAYERS[0] + HALF_HEIGHT
    return [
        f'<path d="M{MIDDLE} {y}H{LEFT}V{from_below + 2}" stroke="{INK}" stroke-width="2" fill="none" '
        f'marker-end="url(#{INK[1:]})"/>',
        f'<path d="M{MIDDLE} {y}H{RIGHT}V{from_below + 2}" stroke="{INK}" stroke-width="2" fill="none" '
        f'marker-end="url(#{INK[1:]})"/>',
        f'<rect x="{MIDDLE - 125}" y="{y - 18}" width="250" height="36" rx="6" fill="#FFFFFF" stroke="{INK}"/>',
        _text(MIDDLE, y + 5, "x: a labelled or unlabelled row", 14, INK),
        _text(
            MIDDLE,
            528,
            f'cost = <tspan fill="{COST}">cross entropy</tspan> (labelled rows) + '
            f'<tspan fill="{COST}">Σ {_power("λ", "l")} ‖{_power("ẑ", "l")} − {_power("z", "l")}‖²</tspan> (all rows)',
            16,
            INK,
        ),
    ]


def _power(symbol: str, layer: int | str) -> str:
    return f'{symbol}<tspan dy="-6" font-size="0.68em">({layer})</tspan><tspan dy="6">&#8203;</tspan>'


def _text(
    x: float,
    y: float,
    text: str,
    size: int,
    colour: str,
    anchor: str = "middle",
    weight: str = "normal",
    italic: bool = False,
) -> str:
    style = ' font-style="italic"' if italic else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" '
        f'font-weight="{weight}"{style}>{text}</text>'
    )


def _box(x: int, y: int, colour: str) -> str:
    tint = {NOISY: "#FBEBDF", CLEAN: "#E2EFF8"}[colour]
    return (
        f'<rect x="{x - HALF_WIDTH}" y="{y - HALF_HEIGHT}" width="{2 * HALF_WIDTH}" height="{2 * HALF_HEIGHT}" rx="6" '
        f'fill="{tint}" stroke="{colour}" stroke-width="2"/>'
    )


def _arrow(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return (
        f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}" stroke="{colour}" stroke-width="2" fill="none" '
        f'marker-end="url(#{colour[1:]})"/>'
    )
