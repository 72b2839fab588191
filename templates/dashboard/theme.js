// Light or dark as the system says, until a choice is made here; the choice is kept where the browser lets it be.
const THEMES = ["auto", "light", "dark"];

function kept() {
  try {
    return localStorage.getItem("kgen-theme");
  } catch {
    return null;
  }
}

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $("theme").textContent = `Theme: ${theme}`;
  try {
    localStorage.setItem("kgen-theme", theme);
  } catch {
    /* the choice lasts as long as the page */
  }
}

function startTheme() {
  let theme = THEMES.includes(kept()) ? kept() : "auto";
  setTheme(theme);
  $("theme").addEventListener("click", () => setTheme((theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length])));
}
