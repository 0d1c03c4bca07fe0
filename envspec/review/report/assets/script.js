"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { targets, packages, licences } = data;
  const every = targets.map((_, place) => place);
  const $ = (id) => document.getElementById(id);

  // texts go in as text nodes, attributes as plain values: nothing of a lock is ever read as markup
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== ""));
    return element;
  }
  function bytes(size) {
    for (const [limit, unit, digits] of [[1e9, "GB", 2], [1e6, "MB", 1], [1e3, "kB", 0]]) {
      if (size >= limit) return `${(size / limit).toFixed(digits)} ${unit}`;
    }
    return `${size} B`;
  }
  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
  const listed = (names, shown = 6) =>
    names.length <= shown + 1 ? names.join(", ") : `${names.slice(0, shown).join(", ")} and ${names.length - shown} more`;
  const named = (places) => listed(places.map((place) => targets[place].name));

  for (const one of packages) {
    one.at = new Map();
    one.variants.forEach((variant, number) => (variant.targets ?? every).forEach((place) => one.at.set(place, number)));
    one.words = [one.name, ...one.variants.flatMap((variant) => [variant.version, variant.index])].join(" ").toLowerCase();
    one.licences = new Set(one.variants.map((variant) => variant.licence));
  }
  packages.forEach((one, number) => { one.bad = data.vulnerable[number] ?? []; one.was = new Map(); });
  // what each target had before, of what changed: [old version, old size, new size]
  const gone = [];
  for (const change of data.changes ?? []) {
    const one = change.package === null ? null : packages[change.package];
    if (one) one.risk = change.risk;
    for (const { old, new: now, size, targets: where } of change.moves) {
      for (const place of where ?? every) {
        if (one) one.was.set(place, { old, now, size });
        if (!one || now === null) gone.push({ name: change.name, old, size: size[0], place });
      }
    }
  }

  function options(select, entries, chosen) {
    select.replaceChildren(...entries.map(([value, label]) => make("option", { value, selected: value === chosen }, label)));
  }

  // Moving with the keys: one stop of the Tab key for a whole group
  function roving(group, next) {
    group.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName !== "BUTTON") return;
      const to = next(event.target, event.key);
      if (!to) return;
      event.preventDefault();
      stop(group, to);
      to.focus();
    });
    group.addEventListener("focusin", (event) => { if (event.target.tagName === "BUTTON") stop(group, event.target); });
  }
  function stop(group, button) {
    for (const other of group.querySelectorAll('button[tabindex="0"]')) other.tabIndex = -1;
    if (button) button.tabIndex = 0;
  }
  // the nearest button in the direction of an arrow key
  function towards(buttons, from, key) {
    const axis = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key];
    if (!axis) return null;
    const middle = (button) => {
      const box = button.getBoundingClientRect();
      return [box.left + box.width / 2, box.top + box.height / 2];
    };
    const [x, y] = middle(from);
    let best = null, least = Infinity;
    for (const button of buttons) {
      if (button === from) continue;
      const [left, top] = middle(button);
      const along = (left - x) * axis[0] + (top - y) * axis[1];
      const across = Math.abs((left - x) * axis[1] + (top - y) * axis[0]);
      if (along > 1 && along + 2 * across < least) { best = button; least = along + 2 * across; }
    }
    return best;
  }

  // --- the address: it holds what is shown, so that it can be sent ------------------------------------------------------
  let settled = false;
  function keep(section, state) {
    if (!settled) return;
    const kept = Object.entries(state).filter(([, value]) => value !== "" && value !== false && value !== null);
    const words = new URLSearchParams(kept.map(([name, value]) => [name, value === true ? "yes" : value]));
    history.replaceState(null, "", `#${section}${kept.length ? `?${words}` : ""}`);
  }
  function restore() {
    const [section, words] = location.hash.slice(1).split("?");
    if (words === undefined || !["packages", "graph"].includes(section)) return;
    const given = new URLSearchParams(words);
    settled = false;
    if (section === "packages") {
      for (const id of ["find", "kind", "licence"]) $(id).value = given.get(id) ?? "";
      for (const id of ["direct", "differs", "changed", "vulnerable"]) $(id).checked = given.has(id) && !$(id).disabled;
      filter();
    } else {
      const place = targets.findIndex((one) => one.name === given.get("target"));
      if (place >= 0) graphTarget.value = place;
      if (/^[1-4]$/.test(given.get("depth") ?? "")) $("depth").value = given.get("depth");
      $("centre").value = given.get("package") ?? "";
      $("centre").dispatchEvent(new Event("change"));
    }
    settled = true;
    $(section).scrollIntoView({ behavior: "instant" });
  }
  addEventListener("hashchange", restore);

  // --- the matrix ---------------------------------------------------------------------------------------------------
  const matrix = $("matrix");
  let shown = every, body = null, rows = [], visible = [];

  function buildMatrix() {
    matrix.style.setProperty("--shown", Math.max(1, shown.length));
    const head = make("div", { class: "row head", role: "row", "aria-rowindex": 1 });
    head.append(make("span", { class: "name", role: "columnheader" }, "Package"));
    for (const place of shown) {
      head.append(make("span", { role: "columnheader", title: targets[place].name }, targets[place].name));
    }
    head.append(make("span", { class: "size", role: "columnheader", title: "the largest of its files" }, "Download"));
    body = make("div", { class: "body", role: "rowgroup" });
    rows = packages.map((one, number) => buildRow(one, number));
    body.append(...rows, make("p", { class: "empty", hidden: true }, "No package fits. Reset shows all of them."));
    matrix.setAttribute("aria-colcount", shown.length + 2);
    matrix.setAttribute("aria-rowcount", packages.length + 1);
    matrix.replaceChildren(make("div", { role: "rowgroup", class: "head" }, head), body);
    filter();
  }
  function buildRow(one, number) {
    const row = make("div", { class: "row", role: "row", "aria-rowindex": number + 2 });
    const button = make("button", { type: "button", tabindex: -1, title: one.name }, one.name);
    button.package = number;
    const name = make("span", { class: "name", role: "rowheader" }, button);
    if (one.direct) name.append(make("span", { class: "tag direct", title: "the spec asks for it by name" }, "direct"));
    if (one.kind === "conda") name.append(make("span", { class: "tag" }, "conda"));
    if (one.risk) name.append(make("span", { class: `tag ${one.risk}`, title: `changed: ${one.risk} risk` }, `changed: ${one.risk} risk`));
    if (one.bad.length) name.append(make("span", { class: "tag bad", title: one.bad.join(", ") }, "vulnerable"));
    row.append(name);
    // what is the same in neighbouring targets is one cell over all of them
    for (let start = 0; start < shown.length; ) {
      const variant = one.at.get(shown[start]), was = before(one, shown[start]);
      let end = start + 1;
      while (end < shown.length && one.at.get(shown[end]) === variant && before(one, shown[end]) === was) end += 1;
      row.append(buildCell(one, variant, start, end));
      start = end;
    }
    const sizes = one.variants.filter((_, at) => shown.some((place) => one.at.get(place) === at)).map((variant) => variant.size);
    const largest = Math.max(...sizes.filter((size) => size !== null));
    row.append(make("span", { class: "size", role: "cell" }, largest >= 0 ? bytes(largest) : sizes.length ? "unknown" : "–"));
    return row;
  }
  // "" for what didn't change there, else the old version or "new"
  function before(one, place) {
    const was = one.was.get(place);
    return was === undefined ? "" : (was.old ?? "new");
  }
  function buildCell(one, number, start, end) {
    const span = end - start, was = before(one, shown[start]);
    const wide = span > 1 ? span : null;
    const cell = make("span", { role: "cell", "aria-colspan": wide });
    if (wide) cell.style.gridColumn = `span ${span}`;
    if (number === undefined) {
      cell.className = "absent";
      cell.textContent = was && was !== "new" ? `${was} → –` : "–";
      cell.setAttribute("aria-label", was && was !== "new" ? `${was} is gone` : "not in it");
      return cell;
    }
    const variant = one.variants[number];
    cell.className = `version v${one.variants.length > 1 ? 1 + (number % 5) : 0}`;
    const source = variant.source === "wheel" || variant.source === "conda" ? "" : ` (${variant.source})`;
    if (was) cell.classList.add("old");
    const sign = was === "new" ? "+ " : was && was !== variant.version ? `${was} → ` : "";
    cell.textContent = sign + variant.version + source + (was === variant.version ? ", but changed" : "");
    cell.title = [was === "new" ? "new here" : was ? `was ${was}` : "", `${variant.version}${variant.build ? ` ${variant.build}` : ""}`, variant.index, variant.file].filter(Boolean).join("\n");
    return cell;
  }
  function differs(one) {
    return shown.some((place) => one.at.get(place) !== one.at.get(shown[0]));
  }
  function filter() {
    const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    const kind = $("kind").value, licence = $("licence").value === "" ? null : Number($("licence").value);
    const direct = $("direct").checked, differing = $("differs").checked, vulnerable = $("vulnerable").checked;
    const changed = $("changed").checked;
    visible = [];
    let present = 0;
    packages.forEach((one, number) => {
      const here = shown.some((place) => one.at.has(place));
      present += here;
      const fits =
        here && (!kind || one.kind === kind) && (licence === null || one.licences.has(licence)) &&
        (!direct || one.direct) && (!vulnerable || one.bad.length > 0) && (!differing || differs(one)) &&
        (!changed || shown.some((place) => one.was.has(place))) &&
        words.every((word) => one.words.includes(word));
      if (rows[number].hidden === fits) rows[number].hidden = !fits;
      if (fits) visible.push(rows[number]);
    });
    body.lastChild.hidden = visible.length > 0;
    const left = changed ? new Set(gone.filter((one) => shown.includes(one.place)).map((one) => one.name)) : new Set();
    $("count").textContent = `${visible.length} of ${plural(present, "package")}` + (left.size ? `; gone: ${listed([...left])}` : "");
    keep("packages", { find: $("find").value, kind, licence: $("licence").value, direct, differs: differing, changed, vulnerable });
    const focused = matrix.querySelector('button[tabindex="0"]');
    if (!focused || focused.closest(".row").hidden) stop(matrix, visible.length ? visible[0].querySelector("button") : null);
  }
  function chooseTargets() {
    const boxes = [...document.querySelectorAll("#filters [name=target]")];
    shown = boxes.filter((box) => box.checked).map((box) => Number(box.value));
    $("chosen").textContent = shown.length === every.length ? "all" : shown.length ? `${shown.length} of ${every.length}` : "none";
    buildMatrix();
  }
  roving(matrix, (button, key) => {
    const at = visible.indexOf(button.closest(".row"));
    const page = Math.max(1, Math.floor(matrix.clientHeight / 32) - 2), last = visible.length - 1;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: last }[key];
    return to === undefined || at < 0 ? null : visible[Math.min(last, Math.max(0, to))].querySelector("button");
  });
  matrix.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) open(button.package, button);
  });
  const form = $("filters");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => (event.target.name === "target" ? chooseTargets() : filter()));
  form.addEventListener("reset", () => setTimeout(chooseTargets, 0));
  for (const [id, checked] of [["every", true], ["none", false]]) {
    $(id).addEventListener("click", () => {
      for (const box of document.querySelectorAll("#filters [name=target]")) box.checked = checked;
      chooseTargets();
    });
  }
  const choice = document.querySelector(".choice");
  choice.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && choice.open) { choice.open = false; choice.querySelector("summary").focus(); }
  });
  document.addEventListener("click", (event) => { if (!choice.contains(event.target)) choice.open = false; });

  // --- download size ------------------------------------------------------------------------------------------------
  const treemap = $("treemap"), sizeTarget = $("size-target");

  // Squarified: rows along the shorter side, each taken on while it makes the worst proportion better
  // (Bruls, Huizing, van Wijk, "Squarified Treemaps", 2000)
  function squarify(items, x, y, width, height, place) {
    let rest = items, total = items.reduce((sum, item) => sum + item.size, 0);
    while (rest.length && total > 0) {
      const side = Math.min(width, height), scale = (width * height) / total;
      let row = 1, area = rest[0].size * scale, worst = Infinity;
      for (let count = 1, sum = 0; count <= rest.length; count += 1) {
        sum += rest[count - 1].size * scale;
        const depth = sum / side;
        const ratio = Math.max(rest[0].size * scale / (depth * depth), (depth * depth) / (rest[count - 1].size * scale));
        if (ratio > worst) break;
        worst = ratio; row = count; area = sum;
      }
      const depth = area / side, upright = width >= height;
      let at = upright ? y : x;
      for (const item of rest.slice(0, row)) {
        const length = (item.size * scale) / depth;
        if (upright) place(item, x, at, depth, length);
        else place(item, at, y, length, depth);
        at += length;
      }
      if (upright) { x += depth; width -= depth; } else { y += depth; height -= depth; }
      total -= rest.slice(0, row).reduce((sum, item) => sum + item.size, 0);
      rest = rest.slice(row);
    }
  }
  function sizesOf(place) {
    return packages
      .map((one, number) => ({ one, number, variant: one.variants[one.at.get(place)] }))
      .filter((item) => item.variant && item.variant.size !== null)
      .map((item) => ({ ...item, size: item.variant.size }))
      .sort((a, b) => b.size - a.size || a.number - b.number);
  }
  // what a target downloads more or less than before; a file of unknown size can't be compared
  function differenceOf(place) {
    const found = [];
    packages.forEach((one, number) => {
      const was = one.was.get(place);
      if (!was || was.now === null || was.size.includes(null) || was.size[0] === was.size[1]) return;
      const delta = was.size[1] - was.size[0];
      found.push({ one, number, variant: { version: `${was.old ?? "new"} → ${was.now}` }, size: Math.abs(delta), delta });
    });
    for (const { name, old, size, place: where } of gone) {
      if (where === place && size) found.push({ one: { name }, number: null, variant: { version: `${old} → –` }, size, delta: -size });
    }
    return found.sort((a, b) => b.size - a.size || (a.one.name < b.one.name ? -1 : 1));
  }
  // of the map, so that paper of another width has the same one
  const share = (value, whole) => `${(100 * value) / whole}%`;
  const signed = (delta) => (delta < 0 ? "−" : "+") + bytes(Math.abs(delta));
  function drawSizes() {
    const difference = $("size-what").value === "difference";
    const place = Number(sizeTarget.value), all = difference ? differenceOf(place) : sizesOf(place);
    const width = treemap.clientWidth, height = treemap.clientHeight;
    if (!width) return;
    const total = difference ? all.reduce((sum, item) => sum + item.size, 0) : targets[place].download;
    treemap.parentElement.classList.toggle("differing", difference);
    treemap.classList.toggle("bare", !all.length);
    // too small to be hit with a finger: these share one tile
    const least = total * (140 / (width * height));
    const items = all.filter((item) => item.size > 0 && item.size >= least);
    const few = all.slice(items.length), rest = few.reduce((sum, item) => sum + item.size, 0);
    const tiles = [];
    if (few.length && rest > 0) items.push({ size: rest, few });
    items.sort((a, b) => b.size - a.size);
    squarify(items, 0, 0, width, height, (item, x, y, w, h) => {
      const part = (100 * item.size) / total, told = part < 0.1 ? "under 0.1 %" : `${part.toFixed(part < 1 ? 1 : 0)} %`;
      const name = item.few ? `+ ${item.few.length}` : item.one.name;
      const size = difference && !item.few ? signed(item.delta) : bytes(item.size);
      const label = `${name} ${size}, ${item.few ? plural(item.few.length, "smaller package") : item.variant.version}, ${told}`;
      const kind = item.few ? "" : difference ? (item.delta < 0 ? "less" : "more") : item.one.kind === "conda" ? "conda" : item.one.direct ? "direct" : "";
      const button = make("button", { type: "button", tabindex: tiles.length ? -1 : 0, class: kind, title: label, "aria-label": label });
      if (w > 44 && h > 24) button.append(make("b", {}, name));
      else button.classList.add("small");
      if (w > 60 && h > 44) button.append(" ", make("span", {}, size));
      Object.assign(button.style, { left: share(x, width), top: share(y, height), width: share(w, width), height: share(h, height) });
      button.package = item.few ? null : item.number;
      tiles.push(button);
    });
    treemap.replaceChildren(...tiles);
    const unsized = targets[place].unsized.map((number) => packages[number].name);
    if (difference) {
      const sum = all.reduce((found, item) => found + item.delta, 0);
      $("size-note").textContent = all.length
        ? `${targets[place].name}: ${signed(sum)} in all, of ${plural(all.length, "file")} with another size.`
        : `${targets[place].name}: no file of another size${data.changes ? "" : ": nothing was compared"}.`;
      return;
    }
    $("size-note").textContent =
      `${targets[place].name}: ${bytes(total)} in ${plural(all.length, "file")}.` +
      (unsized.length ? ` Not counted, size unknown (${unsized.length}): ${listed(unsized, 12)}.` : "");
  }
  roving(treemap, (button, key) => {
    const tiles = [...treemap.children];
    if (key === "Home" || key === "End") return tiles[key === "Home" ? 0 : tiles.length - 1];
    return towards(tiles, button, key);
  });
  treemap.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.package !== null) open(button.package, button, Number(sizeTarget.value));
    else { $("find").focus(); }
  });
  sizeTarget.addEventListener("input", drawSizes);
  $("size-what").addEventListener("input", drawSizes);

  // --- the graph ----------------------------------------------------------------------------------------------------
  const drawing = $("drawing"), graphTarget = $("graph-target"), SPEC = -1, FEW = 14;
  const graphs = new Map();
  let centre = 0, opener = null, wide = new Set();

  function graphOf(place) {
    if (!graphs.has(place)) {
      const out = new Map(), into = new Map();
      for (const [source, target, requirement, where] of data.links) {
        if (where && !where.includes(place)) continue;
        for (const [map, from, to] of [[out, source, target], [into, target, source]]) {
          if (!map.has(from)) map.set(from, new Map());
          map.get(from).set(to, [...(map.get(from).get(to) ?? []), requirement]);
        }
      }
      graphs.set(place, { out, into });
    }
    return graphs.get(place);
  }
  const label = (number) => (number === SPEC ? "the spec" : packages[number].name);
  function byName(a, b) { return (a === SPEC ? -1 : 0) - (b === SPEC ? -1 : 0) || (label(a) < label(b) ? -1 : label(a) > label(b) ? 1 : a - b); }

  // levels of one direction, nearest first; a package stands where it is met first
  function levels(map, depth) {
    const seen = new Set([centre]), found = [];
    for (let level = [centre]; found.length < depth; ) {
      level = [...new Set(level.flatMap((number) => [...(map.get(number)?.keys() ?? [])]))].filter((number) => !seen.has(number));
      if (!level.length) break;
      for (const number of level) seen.add(number);
      found.push(level.sort(byName));
    }
    return found;
  }
  function drawGraph(focus = false) {
    const place = Number(graphTarget.value), { out, into } = graphOf(place), depth = Number($("depth").value);
    const one = packages[centre], variant = one.variants[one.at.get(place)];
    $("centre").value = one.name + (one.kind === "conda" ? " (conda)" : "");
    const above = variant ? levels(into, depth).reverse() : [], below = variant ? levels(out, depth) : [];
    const columns = [...above, [centre], ...below], middle = above.length, nodes = [];
    drawing.replaceChildren(...columns.map((numbers, at) => {
      const away = at - middle;
      const title = away === 0 ? "" : away === -1 ? "needed by" : away === 1 ? "needs" : `${Math.abs(away)} steps away`;
      const list = make("ol", { "data-title": title, "aria-label": title || "the package" });
      const kept = wide.has(away) || numbers.length <= FEW + 1 ? numbers : numbers.slice(0, FEW);
      const here = new Map();
      for (const number of kept) {
        const node = number === SPEC ? make("span", { class: "spec" }, "the spec") : graphNode(number, place, away === 0);
        here.set(number, node);
        list.append(make("li", {}, node));
      }
      if (kept.length < numbers.length) {
        const more = make("button", { type: "button", class: "more", tabindex: -1 }, `and ${numbers.length - kept.length} more`);
        more.column = away;
        list.append(make("li", {}, more));
      }
      nodes.push(here);
      return list;
    }));
    drawLinks(nodes, middle, out);
    describe(place, variant, out, into);
    if (focus) drawing.querySelector(".centre")?.focus({ preventScroll: true });
    const current = drawing.querySelector(".centre");
    if (current) drawing.scrollLeft = current.offsetParent.offsetLeft - (drawing.clientWidth - current.offsetWidth) / 2;
  }
  function graphNode(number, place, central) {
    const one = packages[number], version = one.variants[one.at.get(place)]?.version;
    const kind = one.kind === "conda" ? " conda" : "";
    const style = central ? "centre" : one.direct ? "direct" : "";
    const node = make("button", { type: "button", class: style, tabindex: central ? 0 : -1, "aria-current": central ? "true" : null, title: `${one.name} ${version ?? ""}${kind}` }, one.name + (kind ? " (conda)" : ""));
    node.package = number;
    return node;
  }
  function drawLinks(nodes, middle, out) {
    const space = "http://www.w3.org/2000/svg", svg = document.createElementNS(space, "svg");
    svg.setAttribute("aria-hidden", "true");
    svg.setAttribute("width", drawing.scrollWidth);
    svg.setAttribute("height", drawing.scrollHeight);
    const base = drawing.getBoundingClientRect(), shift = drawing.scrollLeft;
    for (let at = 0; at + 1 < nodes.length; at += 1) {
      for (const [source, from] of nodes[at]) {
        for (const target of out.get(source)?.keys() ?? []) {
          const to = nodes[at + 1].get(target);
          if (!to) continue;
          const a = from.getBoundingClientRect(), b = to.getBoundingClientRect();
          const [x1, y1] = [a.right - base.left + shift, a.top + a.height / 2 - base.top];
          const [x2, y2] = [b.left - base.left + shift, b.top + b.height / 2 - base.top], bend = (x2 - x1) / 2;
          const path = document.createElementNS(space, "path");
          path.setAttribute("d", `M${x1},${y1}C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`);
          if (at === middle || at === middle - 1) path.setAttribute("class", "near");
          svg.append(path);
        }
      }
    }
    drawing.prepend(svg);
  }
  function describe(place, variant, out, into) {
    const one = packages[centre], details = $("details"), name = targets[place].name;
    if (!variant) {
      $("graph-note").textContent = `${one.name} isn't in ${name}.`;
      details.replaceChildren(facts(one));
      return;
    }
    const lines = (map) => [...(map?.entries() ?? [])].sort((a, b) => byName(a[0], b[0]));
    const needs = lines(out.get(centre)), needed = lines(into.get(centre));
    const who = needed.filter(([source]) => source !== SPEC).length, spec = needed.length > who;
    const asked = [spec ? "the spec" : "", who ? plural(who, "package") : ""].filter(Boolean).join(" and ") || "nothing";
    $("graph-note").textContent = `${one.name} ${variant.version} in ${name}: asked for by ${asked}, needs ${needs.length ? plural(needs.length, "package") : "nothing"}.`;
    details.replaceChildren(facts(one), requirements("Asked for by", needed, true), requirements("Needs", needs, false));
  }
  function facts(one) {
    const list = make("ul", { tabindex: 0, "aria-label": `Versions of ${one.name}` });
    for (const variant of one.variants) {
      const size = variant.size === null ? "size unknown" : bytes(variant.size);
      const licence = licences[variant.licence] ?? "licence not stated";
      const where = variant.targets ? named(variant.targets) : "all targets";
      const what = [variant.build, variant.source, variant.index, size, licence].filter(Boolean).join(" · ");
      const origin = /^https:/.test(variant.origin ?? "") ? [" · ", make("a", { href: variant.origin, rel: "noreferrer noopener" }, "where it comes from")] : [];
      list.append(make("li", {}, make("strong", {}, variant.version), ` ${what}`, ...origin, make("br"), make("small", {}, where)));
    }
    const bad = one.bad.length ? [make("p", { class: "high" }, `Known vulnerabilities: ${one.bad.join(", ")}`)] : [];
    return make("div", {}, make("h3", {}, one.name), ...bad, list);
  }
  function requirements(title, found, sources) {
    const list = make("ul", { tabindex: 0, "aria-label": title });
    for (const [number, texts] of found) {
      list.append(make("li", {}, sources ? make("strong", {}, label(number)) : "", sources ? " " : "", ...texts.flatMap(requirement)));
    }
    if (!found.length) list.append(make("li", { class: "quiet" }, sources ? "nothing" : "no other package"));
    return make("div", {}, make("h3", {}, title), list);
  }
  // a marker says where a requirement holds, and here it does: it need not be read each time
  function requirement(line, at) {
    return [at ? " and " : "", make("code", { title: line }, line.split(";")[0].trim())];
  }
  function choose(number, focus) {
    centre = number;
    wide = new Set();
    const one = packages[number];
    if (!one.at.has(Number(graphTarget.value))) graphTarget.value = [...one.at.keys()][0];
    drawGraph(focus);
    keepGraph();
  }
  function keepGraph() {
    const depth = $("depth").value;
    keep("graph", { package: $("centre").value, target: targets[graphTarget.value].name, depth: depth === "2" ? "" : depth });
  }
  function open(number, from, place) {
    opener = from;
    $("back").hidden = false;
    $("back").textContent = from.closest("#treemap") ? "Back to the map" : "Back to the list";
    if (place !== undefined) graphTarget.value = place;
    else if (shown.length && !shown.includes(Number(graphTarget.value))) graphTarget.value = shown[0];
    choose(number, true);
    $("graph").scrollIntoView({ block: "start" });
  }
  function back() {
    if (!opener) return;
    const to = opener.isConnected ? opener : matrix.querySelector('button[tabindex="0"]');
    opener = null;
    $("back").hidden = true;
    to?.focus();
    to?.scrollIntoView({ block: "center" });
  }
  $("back").addEventListener("click", back);
  $("graph").addEventListener("keydown", (event) => { if (event.key === "Escape") back(); });
  drawing.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.column === undefined) choose(button.package, true);
    else { wide.add(button.column); drawGraph(true); }
  });
  roving(drawing, (button, key) => {
    const columns = [...drawing.querySelectorAll("ol")], column = button.closest("ol"), at = columns.indexOf(column);
    const inside = (list) => [...list.querySelectorAll("button")];
    if (key === "Home" || key === "End") return inside(column).at(key === "Home" ? 0 : -1);
    if (key === "ArrowUp" || key === "ArrowDown") {
      const own = inside(column);
      return own[own.indexOf(button) + (key === "ArrowUp" ? -1 : 1)] ?? null;
    }
    const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
    const buttons = step && columns[at + step] ? inside(columns[at + step]) : [];
    const level = (one) => Math.abs(one.getBoundingClientRect().top - button.getBoundingClientRect().top);
    return buttons.sort((a, b) => level(a) - level(b))[0] ?? null;
  });
  $("centre").addEventListener("change", (event) => {
    const name = event.target.value.trim().toLowerCase();
    const number = packages.findIndex((one) => name === one.name.toLowerCase() + (one.kind === "conda" ? " (conda)" : ""));
    const near = number >= 0 ? number : packages.findIndex((one) => name && one.name.toLowerCase().startsWith(name));
    if (near >= 0) choose(near, false);
    else $("graph-note").textContent = `No package is called ${event.target.value}.`;
  });
  graphTarget.addEventListener("input", () => { drawGraph(); keepGraph(); });
  $("depth").addEventListener("input", () => { wide = new Set(); drawGraph(); keepGraph(); });

  // on paper nothing can be opened
  addEventListener("beforeprint", () => {
    for (const one of document.querySelectorAll("main details:not([open]):not(.choice)")) { one.open = true; one.dataset.printed = ""; }
  });
  addEventListener("afterprint", () => {
    for (const one of document.querySelectorAll("[data-printed]")) { one.open = false; delete one.dataset.printed; }
  });

  // --- start --------------------------------------------------------------------------------------------------------
  document.documentElement.classList.add("ready");
  const choices = targets.map((target, place) => [String(place), target.name]);
  const largest = every.reduce((best, place) => (targets[place].download > targets[best].download ? place : best), 0);
  options(sizeTarget, choices, String(largest));
  options(graphTarget, choices, String(largest));
  $("names").append(...packages.map((one) => make("option", { value: one.name + (one.kind === "conda" ? " (conda)" : "") })));
  buildMatrix();
  // where most questions begin: torch, or what is asked for by name and needs the most
  const links = new Map();
  for (const [source] of data.links) links.set(source, (links.get(source) ?? 0) + 1);
  centre = packages.reduce((best, one, number) => {
    const leads = (at) => (["torch", "pytorch"].includes(packages[at].name) ? 2e6 : 0);
    const score = (at) => leads(at) + (packages[at].direct ? 1e6 : 0) + (links.get(at) ?? 0);
    return score(number) > score(best) ? number : best;
  }, 0);
  setTimeout(() => {
    choose(centre, false);
    drawSizes();
    let width = treemap.clientWidth;
    new ResizeObserver(() => {
      if (treemap.clientWidth === width) return;
      width = treemap.clientWidth;
      drawSizes();
      drawGraph();
    }).observe(treemap);
    settled = true;
    restore();
    document.documentElement.dataset.drawn = "yes";
  }, 0);
})();
