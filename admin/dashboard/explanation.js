// Why one decision was made: each step of the policy in order, what it saw, the
// line that decided, and what would have changed it.
import {html, Component} from './html.js';
import {words} from './format.js';

const outcomeKind = {passed: 'good', refused: 'bad', shadow: 'notice'};

export class Explanation extends Component {
  state = {told: null, failed: null};

  async componentDidMount() {
    this.asking = new AbortController();
    try {
      const answer = await fetch(`/explain?id=${encodeURIComponent(this.props.id)}`, {cache: 'no-store', signal: this.asking.signal});
      const told = await answer.json();
      this.setState(answer.ok ? {told} : {failed: told.detail});
    } catch (e) {
      if (e.name !== 'AbortError') this.setState({failed: 'The gateway does not answer.'});
    }
  }

  componentWillUnmount() {
    this.asking.abort();
  }

  render({id}, {told, failed}) {
    const e = told?.explanation;
    return html`<section class="explanation" aria-label=${`Explanation of ${id}`}>
      <div role="status">
        ${!told && !failed && html`<p class="muted">Asking why…</p>`}
        ${failed && html`<p class="muted">${failed}</p>`}
        ${told && !e && html`<p class="muted">${told.without ? `It cannot be decided again: ${told.without}` : 'What is known of it is above; sluice explain with the same request tells the steps.'}</p>`}
        ${e && html`<p class="verdict"><b>${verdict(e)}</b>${e.where && html` <span class="muted">decided by ${e.decided_by},</span> <code>${e.where}</code> <code class="muted">${e.path}</code>`}</p>`}
      </div>
      ${e?.steps?.length > 0 && html`<ol class="steps">${e.steps.map((s, i) => html`<li key=${i} data-decides=${s.step === e.decided_by}>
        <span class="chip small" data-kind=${outcomeKind[s.outcome] ?? 'plain'}>${s.outcome}</span>
        <div><b>${s.step}</b> ${s.says}
          ${s.where && html`<span class="block muted"><code>${s.where}</code> ${s.path}</span>`}
          ${s.saw?.length > 0 && html`<dl class="saw">${s.saw.map((f) => html`<dt>${f.what}</dt><dd>${f.value}</dd>`)}</dl>`}</div>
      </li>`)}</ol>`}
      ${e?.otherwise?.length > 0 && html`<h3>What would have changed it</h3><ul class="otherwise">${e.otherwise.map((o) => html`<li key=${o}>${o}</li>`)}</ul>`}
    </section>`;
  }
}

function verdict(e) {
  const why = e.reason && e.reason !== 'none' ? `: ${words(e.reason)}` : '';
  const shadow = e.shadow && e.shadow !== 'none' ? `; in shadow it would have been refused: ${words(e.shadow)}` : '';
  return `${e.verdict}${why}${shadow}`;
}
