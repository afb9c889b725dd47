const fields = ['tenant', 'route', 'class', 'reason', 'verdict', 'id', 'failure', 'shadow', 'detail', 'status', 'outcome'];

// matcher reads a filter: words that must all appear, each in any field, or
// after a colon in the field named: tenant:acme reason:shed.
export function matcher(text) {
  const has = (d, field, value) => String(d[field] ?? '').toLowerCase().includes(value);
  const terms = text.toLowerCase().split(/\s+/).filter(Boolean).map((term) => {
    const cut = term.indexOf(':');
    const field = term.slice(0, Math.max(0, cut));
    return fields.includes(field) ? (d) => has(d, field, term.slice(cut + 1)) : (d) => fields.some((f) => has(d, f, term));
  });
  return (d) => terms.every((matches) => matches(d));
}
