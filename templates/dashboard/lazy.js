// Rows come as they are scrolled to, so that a keystroke lays out one screen however many packages there are.
const STEP = 60;

class LazyBody {
  constructor(body, make) {
    Object.assign(this, { body, make, items: [], shown: 0 });
    this.end = h("div", { "aria-hidden": "true" });
    new IntersectionObserver(([entry]) => entry.isIntersecting && this.more(), { rootMargin: "900px" }).observe(this.end);
  }

  set(items) {
    this.items = items;
    this.shown = 0;
    this.body.replaceChildren();
    this.more();
  }

  more(least = this.shown + STEP) {
    const next = this.items.slice(this.shown, Math.max(least, this.shown));
    this.body.append(...next.map((item, index) => this.make(item, this.shown + index)));
    this.shown += next.length;
    // While the end stays in view nothing tells the observer: it is asked again after the layout.
    if (next.length && this.shown < this.items.length) requestAnimationFrame(() => this.fill());
  }

  fill() {
    if (this.end.isConnected && this.end.getBoundingClientRect().top < innerHeight + 900 && this.end.offsetParent) this.more();
  }

  all() { this.more(this.items.length); }
}
