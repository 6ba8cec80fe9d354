// Before anything is painted: light or dark, as the reader chose, or else as the browser says.
"use strict";
try {
  const chosen = localStorage.getItem("famulus-scheme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.scheme = chosen;
} catch { /* a browser that keeps nothing */ }
