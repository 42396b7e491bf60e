// The refresh of a page, its keys, and the switch of its theme.
(() => {
  "use strict";
  // ---- a refresh changes what has changed, so that focus, selection and scrolling stay

  function morph(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
      old.replaceWith(fresh);
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    if (old.hasAttribute("data-keep")) return;
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const news = [...fresh.childNodes];
    const olds = [...old.childNodes];
    news.forEach((child, at) => (at < olds.length ? morph(olds[at], child) : old.append(child)));
    olds.slice(news.length).forEach((child) => child.remove());
  }

  htmx.defineExtension("manta", {
    isInlineSwap: (style) => style === "morph",
    handleSwap: (style, target, fragment) => {
      if (style !== "morph") return false;
      const fresh = fragment.nodeType === Node.DOCUMENT_FRAGMENT_NODE ? fragment.querySelector(`#${target.id}`) : fragment;
      if (fresh) morph(target, fresh);
      return [target];
    },
  });
  document.body.setAttribute("hx-ext", "manta");

  let asking = false;
  async function refresh() {
    const live = document.getElementById("live");
    if (asking || document.hidden || !live) return;
    asking = true;
    try {
      await htmx.ajax("GET", live.dataset.again, { target: "#live", swap: "morph", source: live });
    } finally {
      asking = false;
    }
  }

  // ---- how often, which is remembered

  const kept = {
    get: (name) => {
      try {
        return localStorage.getItem(name);
      } catch {
        return null;
      }
    },
    set: (name, value) => {
      try {
        localStorage.setItem(name, value);
      } catch {
        // It lasts until the page is left.
      }
    },
  };
  const every = document.querySelector("[data-every]");
  let timer = 0;
  function pace() {
    clearInterval(timer);
    const seconds = Number(every.value);
    if (seconds) timer = setInterval(refresh, seconds * 1000);
  }
  const wanted = kept.get("manta-every");
  if ([...every.options].some((one) => one.value === wanted)) every.value = wanted;
  every.addEventListener("change", () => {
    kept.set("manta-every", every.value);
    pace();
    refresh();
  });
  every.hidden = false;
  pace();
  document.addEventListener("visibilitychange", () => Number(every.value) && refresh());

  const lost = (is) => () => document.body.classList.toggle("is-lost", is);
  document.body.addEventListener("htmx:sendError", lost(true));
  document.body.addEventListener("htmx:afterOnLoad", lost(false));
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    // A queue that is deleted while its page is open, and a deed that is refused: the page says so.
    const { status } = event.detail.xhr;
    if (status === 404 || status === 409) {
      event.detail.shouldSwap = true;
      event.detail.isError = false;
    }
    if (status === 401) location.reload();
  });
  document.body.addEventListener("htmx:afterSwap", (event) => {
    window.mantaCharts.draw();
    if (event.detail.target.id !== "live") refresh(); // a deed has been done: what it has changed is to be seen
  });

  // ---- names of arguments, for those who do not know them by heart

  for (const names of document.querySelectorAll(".lines")) names.hidden = false;
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-line]");
    if (!button) return;
    const text = button.closest(".area").querySelector("textarea");
    const before = text.value.trimEnd();
    text.value = (before ? `${before}\n` : "") + button.dataset.line;
    text.focus();
  });

  // ---- keys

  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select")) return;
    event.preventDefault();
    const search = document.querySelector("[data-search]") ?? document.getElementById("find");
    search.focus();
    search.select();
  });

  // ---- theme

  const button = document.querySelector("[data-theme-switch]");
  const themes = ["auto", "light", "dark"];
  const root = document.documentElement;
  const told = () => {
    const now = root.dataset.theme ?? "auto";
    button.lastElementChild.textContent = now;
    button.setAttribute("aria-label", `Theme: ${now}. Change it`);
  };
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(root.dataset.theme ?? "auto") + 1) % themes.length];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    kept.set("manta-theme", next);
    told();
    window.mantaCharts.again();
  });
  told();
  button.hidden = false;

  const leave = document.querySelector("[data-logout]");
  if (leave) {
    leave.hidden = false;
    leave.addEventListener("click", async () => {
      await fetch(leave.dataset.logout, { method: "POST" });
      location.reload();
    });
  }
  window.mantaCharts.draw();

  // On a narrow screen the menu is a strip.
  const strip = document.querySelector(".menu");
  const here = strip.querySelector("[aria-current]");
  if (here && strip.scrollWidth > strip.clientWidth) strip.scrollLeft = here.offsetLeft - strip.clientWidth / 2 + here.offsetWidth / 2;
})();
