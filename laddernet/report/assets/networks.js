// What a network learned: its combinators, what denoising does, and what the network generates.

const network = { picture: null, layer: 0, unit: 0 };

function startNetworks() {
  const runByFingerprint = new Map(study.runs.map((run) => [run.fingerprint, run]));
  const known = read("pictures").map((picture) => ({ ...picture, run: runByFingerprint.get(picture.fingerprint) })).filter(({ run }) => run);
  if (!known.length) return hideSection("networks");
  const models = [...new Set(known.map(({ run }) => run.model))];
  const labels = d3.sort(new Set(known.map(({ run }) => run.labels)));
  const chosen = { model: models.includes(study.reference) ? study.reference : models[0], labels: labels[0] };
  const update = () => {
    network.picture = known.find(({ run }) => run.model === chosen.model && run.labels === chosen.labels);
    showNetwork(chosen);
  };
  const change = (key) => (value) => {
    chosen[key] = value;
    update();
  };
  at("networks-controls").append(
    select("Model", models.map((model) => [model, model]), chosen.model, change("model")),
    choice("labels", labels.map((n) => [n, grouped(n)]), chosen.labels, change("labels")),
    make("output", { id: "networks-run" }),
  );
  update();
}

function showNetwork(chosen) {
  const { picture } = network;
  const surfaces = picture?.surfaces ?? [];
  at("networks-body").hidden = !surfaces.length;
  at("networks-none").hidden = surfaces.length > 0;
  at("networks-run").textContent = picture ? `seed ${picture.run.seed}, test error ${fixed(picture.run.error, 2)} %` : "";
  at("networks-none").textContent = picture
    ? `${chosen.model} has no decoder, so it has no combinators and does no denoising.`
    : `No run of ${chosen.model} with ${labelled(chosen.labels)} has pictures.`;
  if (!surfaces.length) return;
  if (!layers().includes(network.layer)) network.layer = layers()[0];
  showLayers();
  showSurface();
  showDenoising();
  showSamples();
}

const layers = () => [...new Set(network.picture.surfaces.map(({ layer }) => layer))];
const surfacesOf = (layer) => network.picture.surfaces.filter((surface) => surface.layer === layer);
const chosenSurface = (layer) => surfacesOf(layer)[network.unit] ?? surfacesOf(layer)[0];
const layerName = (layer, top) => (layer === 0 ? "0, input" : layer === top ? `${layer}, top` : String(layer));

function showLayers() {
  const boxes = layers().map((layer, _, all) => {
    const change = () => {
      network.layer = layer;
      showSurface();
    };
    const input = make("input", { type: "radio", name: "layer", value: layer, class: "unseen", onchange: change });
    input.checked = layer === network.layer;
    return make("label", {}, input, thumbnail(chosenSurface(layer)), make("span", {}, `layer ${layerName(layer, all.at(-1))}`));
  });
  at("layers").replaceChildren(...boxes);
}

function showSurface() {
  const units = surfacesOf(network.layer).map((each, i) => [i, each.name]);
  at("units").replaceChildren(
    choice("unit", units, network.unit, (unit) => {
      network.unit = unit;
      showLayers();
      drawSurface();
    }),
  );
  drawSurface();
}

function drawSurface() {
  if (!network.picture?.surfaces.length) return;
  const surface = chosenSurface(network.layer);
  const panel = (caption, element) => make("figure", {}, make("figcaption", {}, caption), element);
  at("surface").replaceChildren(
    panel("the surface", heightField(surface)),
    panel("from above, with contours", contourMap(surface)),
    make("div", {}, panel("cross-sections along z̃", sections(surface, false)), panel("cross-sections along u", sections(surface, true))),
  );
}

function showDenoising() {
  const denoised = network.picture.denoised;
  at("denoising").hidden = !denoised.length;
  const most = d3.max(denoised.flatMap((layer) => [layer.noisy_error, layer.reconstructed_error]));
  at("denoising-layers").replaceChildren(...denoised.map((layer, _, all) => denoisedLayer(layer, all.at(-1).layer, most)));
}

function denoisedLayer(layer, top, most) {
  const strips = ["clean", "noisy", "reconstructed"].map((word) =>
    make("figure", {}, make("img", { src: layer[word], alt: `layer ${layer.layer}, ${word}` }), make("figcaption", {}, word)),
  );
  const percent = Math.round(100 * (1 - layer.reconstructed_error / layer.noisy_error));
  const verdict = !layer.noisy_error
    ? "no noise in this layer"
    : percent >= 0 ? `${percent} % of the noise removed` : `${-percent} % more error than the noise made`;
  const bar = (word, error) => {
    const stripe = make("span", { class: `bar ${word}` });
    stripe.style.width = `${Math.max(1, (100 * error) / most)}%`;
    return make("div", {}, make("span", {}, `${word} ${short(error)}`), make("span", { class: "track" }, stripe));
  };
  return make(
    "div", { class: layer.images ? "denoised images" : "denoised" },
    make("h4", {}, `Layer ${layerName(layer.layer, top)}`),
    make("div", { class: "strips" }, ...strips),
    make(
      "div", { class: "errors" },
      make("b", {}, verdict), bar("noisy", layer.noisy_error), bar("reconstructed", layer.reconstructed_error),
      layer.counted ? null : make("small", {}, "The model’s cost has no term for this layer."),
    ),
  );
}

function showSamples() {
  const { samples } = network.picture;
  at("samples").hidden = !samples;
  if (!samples) return;
  const figure = (src, caption) => make("figure", {}, make("img", { src, alt: caption }), make("figcaption", {}, caption));
  at("samples-pictures").replaceChildren(
    figure(samples.classes, "ancestral sampling: a line for each class"),
    figure(samples.chains, "walkback: a chain for each class, from left to right"),
  );
}
