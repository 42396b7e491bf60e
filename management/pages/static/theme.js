// Before anything is drawn: the theme that was chosen, if any.
(() => {
  "use strict";
  try {
    const chosen = localStorage.getItem("manta-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // Without storage there is the system's theme.
  }
})();
