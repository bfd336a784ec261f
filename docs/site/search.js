const box = document.getElementById("search"), found = document.getElementById("found");
if (matchMedia("(max-width: 48rem)").matches) document.querySelector(".menu").open = false;
function look() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean), hits = [];
  if (words.length) for (const [url, page, heading, text] of INDEX) {
    let score = 0;
    for (const word of words) {
      const inHeading = heading.toLowerCase().includes(word), inPage = page.toLowerCase().includes(word), inText = text.toLowerCase().includes(word), inAddress = url.includes(word);
      if (!inHeading && !inPage && !inText && !inAddress) { score = 0; break; }
      score += 6 * inHeading + 3 * inPage + 4 * inAddress + inText + 6 * (heading.toLowerCase() === word || page.toLowerCase() === word);
    }
    const mine = url.startsWith("es/") === (document.documentElement.lang === "es");
    if (score) hits.push([mine ? score : score / 4, url, page, heading, text]);
  }
  hits.sort((a, b) => b[0] - a[0]);
  found.replaceChildren(...hits.slice(0, 20).map(([, url, page, heading, text]) => {
    const li = document.createElement("li"), a = document.createElement("a"), small = document.createElement("small");
    a.href = ROOT + url; a.textContent = heading && heading !== page ? `${page} › ${heading}` : page; small.textContent = text.slice(0, 140);
    li.append(a, small); return li;
  }));
  found.hidden = !words.length;
}
box.oninput = look;
box.onkeydown = e => { if (e.key === "Escape") { box.value = ""; look(); } if (e.key === "Enter") { const a = found.querySelector("a"); if (a) location = a.href; } };
addEventListener("keydown", e => { if (e.key === "/" && document.activeElement !== box) { e.preventDefault(); box.focus(); } });
document.documentElement.dataset.ready = "yes";
