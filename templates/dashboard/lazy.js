// Rows come as they are scrolled to, so that a keystroke lays out one screen however many packages there are.
const STEP = 30;

class LazyBody {
  constructor(body, make) {
    Object.assign(this, { body, make, items: [], shown: 0 });
    this.end = h("div", { "aria-hidden": "true" });
    this.observer = new IntersectionObserver(([entry]) => entry.isIntersecting && this.more(), { rootMargin: "900px" });
  }

  set(items) {
    this.items = items;
    this.shown = 0;
    this.body.replaceChildren();
    this.more();
  }

  // Draws `least` rows in all, a step more where nothing is said.
  more(least = this.shown + STEP) {
    const next = this.items.slice(this.shown, Math.max(least, this.shown));
    this.body.append(...next.map((item, index) => this.make(item, this.shown + index)));
    this.shown += next.length;
    this.observer.disconnect();
    // Observed anew, it tells again whether the end is near, also when that has not changed.
    if (this.shown < this.items.length) this.observer.observe(this.end);
  }

  all() {
    this.more(this.items.length);
  }
}
