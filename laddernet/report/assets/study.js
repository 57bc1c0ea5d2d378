// The study's page: start its views, first those of the first screen.

function hideSection(id) {
  at(id).hidden = true;
  document.querySelector(`nav a[href="#${id}"]`).hidden = true;
}

function showModels() {
  shown = heat.sort(filtered());
  const all = study.models.length;
  at("filter-count").textContent = shown.length === all ? count(all, "model") : `${shown.length} of ${count(all, "model")}`;
  showTable();
  showSpread();
}

showTop();
startFilter(() => {
  showModels();
  showCurves();
});
startTable();
startSpread();
showModels();
setTimeout(() => {
  startConclusions();
  startCurves();
  startRuns();
  setTimeout(() => {
    startNetworks();
    isReady();
  });
});
drawAgain(() => {
  if (isForest) showTable();
  showSpread();
  drawCurves();
  drawSurface();
}, showAllRuns);
