// The data of the page: what kgen/dashboard/data.py writes. Nothing else is read, and nothing is loaded.
const data = JSON.parse(document.getElementById("data").textContent);
const rows = data.rows;
const byId = new Map(rows.map((row) => [row.id, row]));
const verdicts = new Map(data.verdicts.map(([id, label, meaning], rank) => [id, { id, label, meaning, rank }]));
const $ = (id) => document.getElementById(id);

for (const [index, row] of rows.entries()) {
  row.index = index;
  row.text = `${row.name} ${row.device} ${row.family} ${verdicts.get(row.verdict).label}`.toLowerCase();
}
