// Logging in without leaving the page, so that a wrong token is said here, and the page that was wanted comes next.
(() => {
  "use strict";
  const form = document.querySelector("[data-login]");
  if (!form) return;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const told = form.querySelector("[data-refused]");
    told.textContent = "";
    try {
      const fields = Object.fromEntries(new FormData(form));
      const answer = await fetch(form.action, {
        method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(fields),
      });
      if (answer.ok) location.reload();
      else told.textContent = (await answer.json()).reason ?? "This was refused.";
    } catch {
      told.textContent = "This server does not answer: try again.";
    }
  });
})();
