// Hover texts: what has a title shows it by pointer, by keyboard focus and by touch, in one small box.
(() => {
  const box = document.getElementById("hint");
  let owner = null, timer = 0, touch = false;
  const holder = (target) => (target instanceof Element ? target.closest("[title], [data-hint]") : null);

  const show = (element) => {
    if (owner === element) return;
    hide();
    const text = element.getAttribute("title") || element.dataset.hint;
    if (!text) return;
    owner = element;
    element.dataset.hint = text;
    element.removeAttribute("title"); // the browser's own box would come a second later
    element.setAttribute("aria-describedby", "hint");
    box.textContent = text;
    box.hidden = false;
    const at = element.getBoundingClientRect(), size = box.getBoundingClientRect();
    const below = at.bottom + 6 + size.height < innerHeight || at.top < size.height + 12;
    box.style.top = Math.max(6, below ? at.bottom + 6 : at.top - size.height - 6) + "px";
    box.style.left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - size.width - 8)) + "px";
  };
  const hide = () => {
    clearTimeout(timer);
    if (owner) {
      owner.setAttribute("title", owner.dataset.hint);
      delete owner.dataset.hint;
      owner.removeAttribute("aria-describedby");
    }
    owner = null;
    box.hidden = true;
  };
  const later = (work, delay) => { clearTimeout(timer); timer = setTimeout(work, delay); };

  addEventListener("pointerdown", (event) => {
    touch = event.pointerType === "touch";
    if (!box.contains(event.target)) hide();
  }, true);
  addEventListener("pointerover", (event) => {
    if (event.pointerType !== "mouse") return;
    if (box.contains(event.target)) { clearTimeout(timer); return; } // the text may be pointed at, to read or to copy it
    const element = holder(event.target);
    if (element && element !== owner) later(() => show(element), owner ? 60 : 140);
    else if (element) clearTimeout(timer);
    else if (owner && document.activeElement !== owner) later(hide, 200);
    else clearTimeout(timer);
  });
  addEventListener("click", (event) => {
    const element = holder(event.target);
    if (touch && element && !element.matches("a[href]")) show(element);
  });
  addEventListener("focusin", (event) => {
    const element = holder(event.target);
    if (element === event.target && element.matches(":focus-visible") && !touch) show(element);
  });
  addEventListener("focusout", (event) => { if (event.target === owner) hide(); });
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  addEventListener("scroll", hide, { passive: true, capture: true });
  addEventListener("beforeprint", hide);
})();
