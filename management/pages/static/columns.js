// Which columns of a long table are shown: chosen here, and remembered. Hidden by a sheet of rules, which a refresh leaves.
(() => {
  "use strict";
  const table = document.querySelector("table[data-columns]");
  const bar = document.querySelector("main .bar");
  if (!table || !bar) return;
  const name = `manta-columns-${table.dataset.columns}`;
  const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);

  function read() {
    try {
      const found = JSON.parse(localStorage.getItem(name) ?? "[]");
      return new Set(Array.isArray(found) ? found : []);
    } catch {
      return new Set();
    }
  }

  const hidden = read();
  function hide() {
    const rules = heads.map((head, at) =>
      at && hidden.has(head) ? `table[data-columns] tr > :nth-child(${at + 1}):not([colspan]) { display: none; }` : "");
    sheet.replaceSync(rules.join("\n"));
  }

  const choice = document.createElement("details");
  choice.className = "columns-shown";
  choice.append(Object.assign(document.createElement("summary"), { className: "button", textContent: "Columns" }));
  const list = choice.appendChild(document.createElement("div"));
  for (const head of heads.slice(1)) {
    const label = list.appendChild(document.createElement("label"));
    const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: !hidden.has(head) });
    label.append(box, head);
    box.addEventListener("change", () => {
      if (box.checked) hidden.delete(head);
      else hidden.add(head);
      hide();
      try {
        localStorage.setItem(name, JSON.stringify([...hidden]));
      } catch {
        // It lasts until the page is left.
      }
    });
  }
  bar.append(choice);
  hide();
})();
