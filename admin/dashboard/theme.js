// Light, dark, or what the system says.

const themes = ['auto', 'light', 'dark'];
const key = 'sluice-theme';

function stored() {
  try {
    const theme = localStorage.getItem(key);
    return themes.includes(theme) ? theme : 'auto';
  } catch {
    return 'auto'; // storage is off
  }
}

export let theme = stored();

const listeners = [];

// onTheme calls f whenever the colours have changed.
export function onTheme(f) {
  listeners.push(f);
  return () => listeners.splice(listeners.indexOf(f), 1);
}

function apply() {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  listeners.forEach((f) => f());
}

export function nextTheme() {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  try {
    localStorage.setItem(key, theme);
  } catch {
    // It holds for this page.
  }
  apply();
}

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', apply);
apply();
