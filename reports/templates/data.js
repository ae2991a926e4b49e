"use strict";
window.gfyMake = (tag, text, attributes = {}) => {
  const node = document.createElement(tag);
  if (text !== undefined && text !== null) node.textContent = text; // never innerHTML: names come from anywhere
  for (const [k, v] of Object.entries(attributes)) node.setAttribute(k, v);
  return node;
};
// Unpacks what the page holds, base64 of a zlib stream of JSON; the other scripts wait for it, in their order.
window.gfyData = (async () => {
  const unpacked = async (id) => {
    const node = document.getElementById(id);
    if (!node) return null;
    const bytes = Uint8Array.from(atob(node.textContent), (c) => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  };
  const [rows, evidence] = await Promise.all([unpacked("payload"), unpacked("evidence")]);
  return { rows, evidence };
})();
// What can be scrolled sideways fades out at the edge beyond which there is more.
const fades = () => document.querySelectorAll(".scroll,.picture,.plot").forEach((box) => {
  box.classList.toggle("more", box.scrollWidth - box.clientWidth - box.scrollLeft > 4);
});
for (const what of ["scroll", "toggle"]) document.addEventListener(what, fades, { capture: true, passive: true });
window.addEventListener("resize", fades);
window.gfyData.then(() => new MutationObserver(fades).observe(document.getElementById("main"), { childList: true, subtree: true }));
window.gfyData.catch((error) => {
  const words = `This browser cannot unpack the rows (${error.message}), so nothing can be selected here. They are in rows.csv beside this page.`;
  document.getElementById("main").prepend(window.gfyMake("p", words, { class: "notice" }));
});
