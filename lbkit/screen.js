// The picture of a panel and what is said below it. Frames are painted in the order in which they were sent.
export function render({ model, el }) {
  const make = (tag, role, parent = el) => {
    const node = parent.appendChild(document.createElement(tag));
    if (role) node.setAttribute("role", role);
    return node;
  };
  el.classList.add("lbkit-screen");
  const canvas = make("canvas", "img");
  const line = make("p");
  const state = make("span", "status", line);
  const meter = make("progress", null, line);
  const problem = make("p", "alert");
  const copied = make("details");
  const summary = make("summary", null, copied);
  const text = make("pre", null, copied);
  meter.max = 1;
  copied.hidden = true;

  let newest = 0;
  async function paint() {
    const mine = ++newest;
    const frame = model.get("frame");
    if (!frame?.byteLength) return;
    const picture = await createImageBitmap(new Blob([frame], { type: "image/png" }));
    if (mine === newest) {
      if (canvas.width !== picture.width || canvas.height !== picture.height)
        [canvas.width, canvas.height] = [picture.width, picture.height];
      canvas.getContext("2d").drawImage(picture, 0, 0);
      canvas.dataset.frame = mine;
    }
    picture.close();
  }
  function tell() {
    const signs = { busy: "\u25D4 busy", done: "\u25CF done", stale: "\u25B2 not up to date" };
    el.dataset.state = model.get("state");
    state.textContent = [signs[model.get("state")], model.get("said")].filter(Boolean).join(": ");
    problem.textContent = model.get("problem");
    meter.hidden = model.get("progress") < 0;
    meter.value = Math.max(0, model.get("progress"));
    canvas.setAttribute("aria-label", model.get("alt"));
    canvas.style.width = model.get("width") + "px";
    canvas.style.aspectRatio = model.get("width") + " / " + model.get("height");
    requestAnimationFrame(label);
  }
  // Sliders and fields say what they are, and sliders the value in the field beside them, to those who cannot see.
  function label() {
    for (const { title, parentElement: part } of el.closest(".lbkit-panel")?.querySelectorAll("label[title]") ?? []) {
      if (title === "null") continue;
      part.title = title;
      for (const node of part.querySelectorAll(".noUi-handle, input, select")) node.setAttribute("aria-label", title);
      const field = part.parentElement.querySelector("input[type=number]");
      if (field) part.querySelector(".noUi-handle")?.setAttribute("aria-valuetext", field.value);
    }
  }
  function obey(order, buffers) {
    if (order.save) {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([buffers[0]], { type: order.type }));
      link.download = order.save;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    }
    if (order.copy) {
      summary.textContent = order.title;
      text.textContent = order.copy;
      copied.hidden = false;
      copied.open = true;
      navigator.clipboard?.writeText(order.copy).catch(() => getSelection().selectAllChildren(text));
    }
  }
  model.on("change:frame", paint);
  model.on("change", tell);
  model.on("msg:custom", obey);
  model.set("density", Math.min(2, Math.max(1, window.devicePixelRatio)));
  model.save_changes();
  paint();
  tell();
  return () => {
    model.off("change:frame", paint);
    model.off("change", tell);
    model.off("msg:custom", obey);
  };
}
export default { render };
