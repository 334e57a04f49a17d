// Looks at a page as a reader sees it: writes what is cut off, what lies over something else, and
// what cannot be told from its background into an element that the test reads.
const wrong = [];
document.querySelectorAll("details").forEach((one) => { one.open = true; });
const name = (element) => element.textContent.trim().slice(0, 40);
if (document.documentElement.scrollWidth > innerWidth + 1) {
  wrong.push(`the page scrolls sideways: ${document.documentElement.scrollWidth} of ${innerWidth}`);
}
// Glyphs take less than the box of their line.
const glyphs = (element) => {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  const edge = (bottom - top) / 4;
  return { left: left + 1, right: right - 1, top: top + edge, bottom: bottom - edge };
};
for (const svg of document.querySelectorAll("svg")) {
  const frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text")].map((text) => [text, glyphs(text)]);
  for (const [text, box] of texts) {
    const out = box.left < frame.left || box.right > frame.right || box.top < frame.top || box.bottom > frame.bottom;
    if (out) wrong.push(`cut off: ${name(text)}`);
  }
  texts.forEach(([text, a], at) => texts.slice(at + 1).forEach(([other, b]) => {
    const apart = a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
    if (!apart) wrong.push(`over each other: ${name(text)} and ${name(other)}`);
  }));
}
for (const caption of document.querySelectorAll("figcaption, summary, h1, h2, li, p, dd")) {
  if (caption.scrollWidth > caption.clientWidth + 1 && caption.clientWidth > 0) {
    wrong.push(`wider than its place: ${name(caption)}`);
  }
}
const light = (colour) => {
  const parts = colour.match(/[0-9.]+/g).slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
};
const parts = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map(Number);
const paper = getComputedStyle(document.body).backgroundColor;
const page = light(paper);
// The colour behind a text: that of the page, or of the cell in which the text stands.
const behind = (text) => {
  const cell = text.previousElementSibling;
  const opacity = cell && cell.tagName === "rect" && cell.getAttribute("fill-opacity");
  if (!opacity) return page;
  const [inner, outer] = [text.getBoundingClientRect(), cell.getBoundingClientRect()];
  const middle = (inner.top + inner.bottom) / 2;
  if (middle < outer.top || middle > outer.bottom) return page;
  const [ink, under] = [parts(getComputedStyle(cell).fill), parts(paper)];
  const mixed = ink.map((part, at) => part * opacity + under[at] * (1 - opacity));
  return light(`rgb(${mixed.join(",")})`);
};
for (const text of document.querySelectorAll("svg text, td, th, p, li, figcaption, summary")) {
  const style = getComputedStyle(text);
  const own = light(text.closest("svg") ? style.fill : style.color);
  const under = text.closest("svg") ? behind(text) : page;
  const contrast = (Math.max(own, under) + 0.05) / (Math.min(own, under) + 0.05);
  if (contrast < 2.4) wrong.push(`hard to read (${contrast.toFixed(1)}): ${name(text)}`);
}
const verdict = document.createElement("pre");
verdict.id = "verdict";
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
verdict.textContent = [`width ${innerWidth}, ${dark ? "dark" : "light"}`, ...wrong].join("\n");
(window.frameElement ? parent.document : document).body.append(verdict);
