// Before anything is painted: the theme that was chosen here, or the system's.
const chosenTheme = localStorage.getItem("sidestep-theme");
if (chosenTheme) document.documentElement.dataset.theme = chosenTheme;
