package command

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
)

// Colours are the terminal's own sixteen, so that they fit its theme. Nothing is
// told by colour alone.
var (
	bold    = lipgloss.NewStyle().Bold(true)
	faint   = lipgloss.NewStyle().Faint(true)
	good    = lipgloss.NewStyle().Foreground(lipgloss.Green)
	bad     = lipgloss.NewStyle().Foreground(lipgloss.Red)
	warning = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	heading = lipgloss.NewStyle().Bold(true).Underline(true)
)

// View implements [tea.Model].
func (m *topModel) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "sluice top " + m.address
	return v
}

// lines are the screen: never more than its height, none longer than its width.
func (m *topModel) lines() []string {
	var screen []string
	if m.shown == nil {
		screen = []string{bold.Render("sluice") + "  waiting for the gateway at " + m.address}
	} else {
		screen = m.header()
		room := m.height - len(screen) - 1
		screen = append(screen, m.body(room)...)
	}
	screen = screen[:min(len(screen), max(0, m.height-1))]
	for len(screen) < m.height-1 {
		screen = append(screen, "")
	}
	screen = append(screen, m.footer())
	cut := lipgloss.NewStyle().MaxWidth(max(1, m.width)).Inline(true)
	for i, line := range screen {
		screen[i] = cut.Render(line)
	}
	return screen
}

// header is the state in two lines, and what somebody has to do something about.
func (m *topModel) header() []string {
	d := m.shown
	st := &d.status
	state := good.Render("ready")
	switch {
	case st.Draining:
		state = warning.Render("DRAINING")
	case st.NotReady != "":
		state = bad.Render("NOT READY")
	}
	mode := "enforcing"
	if st.Mode != "enforce" && st.Mode != "" {
		mode = warning.Render(strings.ToUpper(st.Mode))
	}
	stream := good.Render("● live")
	switch {
	case m.lost:
		stream = bad.Render("○ LOST, trying again")
	case m.paused:
		stream = warning.Render("‖ PAUSED")
	}
	first := join(bold.Render("sluice")+" "+printable(st.Version), mode, state, "up "+ago(st.Now, st.Started), stream, faint.Render(d.at.Local().Format("15:04:05")))
	offered, admitted, refused := d.lately("received"), d.lately("admit"), d.lately("refuse")
	of := func(part float64) string {
		if offered <= 0 {
			return ""
		}
		return fmt.Sprintf(" (%.0f%%)", 100*min(1, part/offered))
	}
	second := join(
		fmt.Sprintf("offered %s/s", short(offered)), good.Render("admitted "+short(admitted)+"/s"+of(admitted)),
		bad.Render("refused "+short(refused)+"/s"+of(refused)), fmt.Sprintf("replayed %s/s", short(d.lately("replay"))),
		fmt.Sprintf("%d in flight", st.Totals.InFlight), faint.Render("offered ")+spark(d.series["received"], max(0, min(40, m.width-90))))
	lines := []string{first, second}
	if e := st.Config.ReloadError; e != "" {
		lines = append(lines, bad.Render("✗ the last reload failed, and what was running still is: ")+printable(firstLine(e)))
	}
	if st.NotReady != "" {
		lines = append(lines, bad.Render("✗ ")+printable(st.NotReady))
	}
	for _, o := range st.Origin.Addresses {
		if !o.Healthy {
			lines = append(lines, bad.Render("✗ origin "+o.Address+" is away: ")+printable(o.LastError))
		}
	}
	return lines
}

// join puts two spaces between what is there.
func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return lipgloss.Width(s) == 0 }), "  ")
}

func firstLine(s string) string {
	line, rest, _ := strings.Cut(s, "\n")
	if rest != "" {
		line += " …"
	}
	return line
}

// section is a part of the screen. Of one that does not fit in full, the first
// lines are shown.
type section struct {
	lines  []string
	least  int  // lines that it makes sense with; fewer: it is left out
	bottom bool // it stands last, and gets what the others leave
}

// body fills the room below the header.
func (m *topModel) body(room int) []string {
	queues, reasons, classes := m.queues(), m.reasons(), m.classes()
	switch topViews[m.view] {
	case "queues":
		return m.scrolled(slices.Concat(queues, reasons, classes, m.store()), room)
	case "tenants":
		return m.scrolled(m.tenants(1000), room)
	case "routes":
		return m.scrolled(m.routes(1000), room)
	case "decisions":
		return m.scrolled(m.tail(topTail), room)
	}
	// Side by side where there is room for it.
	left, right := slices.Concat(queues, classes), slices.Concat(reasons, m.store())
	var top []string
	if m.width >= 120 {
		half := m.width/2 - 1
		top = strings.Split(lipgloss.JoinHorizontal(lipgloss.Top, block(left, half), "  ", block(right, half)), "\n")
		list := strings.Split(lipgloss.JoinHorizontal(lipgloss.Top, block(m.tenants(6), half), "  ", block(m.routes(6), half)), "\n")
		return fit(room, section{lines: top, least: 3}, section{lines: m.tail(room), least: 4, bottom: true}, section{lines: list, least: 4})
	}
	return fit(room, section{lines: queues, least: 2}, section{lines: reasons, least: 3}, section{lines: m.tail(room), least: 6, bottom: true},
		section{lines: classes, least: 3}, section{lines: m.tenants(5), least: 4}, section{lines: m.store(), least: 3}, section{lines: m.routes(5), least: 4})
}

// block is lines of one width.
func block(lines []string, width int) string {
	return lipgloss.NewStyle().Width(width).MaxWidth(width).Render(strings.Join(clip(lines, width), "\n"))
}

func clip(lines []string, width int) []string {
	cut := lipgloss.NewStyle().MaxWidth(width).Inline(true)
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = cut.Render(l)
	}
	return out
}

// fit gives each section, in order of importance, the least that it needs, and
// then what is left.
func fit(room int, sections ...section) []string {
	given := make([]int, len(sections))
	for i, s := range sections {
		if need := min(s.least, len(s.lines)); need <= room {
			given[i], room = need, room-need
		}
	}
	var upper, lower []string
	for _, bottom := range []bool{false, true} {
		for i, s := range sections {
			if s.bottom != bottom || given[i] == 0 {
				continue
			}
			more := min(room, len(s.lines)-given[i])
			given[i], room = given[i]+more, room-more
			if bottom {
				lower = append(lower, s.lines[:given[i]]...)
			} else {
				upper = append(upper, s.lines[:given[i]]...)
			}
		}
	}
	return append(upper, lower...)
}

// scrolled shows what has been scrolled to. The heading stays.
func (m *topModel) scrolled(lines []string, room int) []string {
	if len(lines) <= room || room < 2 {
		m.scroll = 0
		return lines[:min(len(lines), max(0, room))]
	}
	m.scroll = min(m.scroll, len(lines)-room)
	return append([]string{lines[0]}, lines[1+m.scroll:m.scroll+room]...)
}

func (m *topModel) footer() string {
	if m.typing {
		return "filter: " + printable(m.filter) + "▏ " + faint.Render("enter keeps it, esc clears it")
	}
	keys := []string{"q quit", "p pause", "tab " + topViews[(m.view+1)%len(topViews)], "s by " + topOrders[m.order], "/ filter"}
	if m.filter != "" {
		keys[4] = warning.Render("filter: " + printable(m.filter))
	}
	return faint.Render(strings.Join(keys[:4], "   ")) + "   " + keys[4]
}

func (m *topModel) reasons() []string {
	d := m.shown
	refused := d.status.Totals.Refused
	names := slices.SortedFunc(maps.Keys(refused), func(a, b string) int {
		return cmp.Or(cmp.Compare(d.lately("refuse/"+b), d.lately("refuse/"+a)), cmp.Compare(refused[b], refused[a]), cmp.Compare(a, b))
	})
	lines := []string{heading.Render(fmt.Sprintf("%-22s %9s %12s", "Refused for", "now/s", "in all"))}
	for _, name := range names {
		lines = append(lines, fmt.Sprintf("%-22s %9s %12d  %s", name, short(d.lately("refuse/"+name)), refused[name], spark(d.series["refuse/"+name], 20)))
	}
	if len(names) == 0 {
		lines = append(lines, faint.Render("nothing is refused"))
	}
	for name, n := range d.status.Totals.Shadow {
		lines = append(lines, faint.Render(fmt.Sprintf("%-22s %9s %12d  would be, in shadow", name, short(d.lately("shadow/"+name)), n)))
	}
	return append(lines, "")
}

func (m *topModel) queues() []string {
	st := &m.shown.status
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(st.Sections.Queues)) {
		q := st.Sections.Queues[name]
		wait, bar := "wait not known", ""
		if q.Wait != nil {
			wait = fmt.Sprintf("wait %s of %s", span(*q.Wait), span(q.Limit))
			bar = gauge(*q.Wait/max(q.Limit, 1e-9), 16)
		}
		note := ""
		if q.Closed {
			note = bad.Render("CLOSED: a signal is lost")
		} else if q.Mode == "shadow" {
			note = warning.Render("shadow")
		}
		var ages []string
		for _, signal := range slices.Sorted(maps.Keys(st.Sections.Signals)) {
			s := st.Sections.Signals[signal]
			if queue, _, _ := strings.Cut(signal, "/"); queue != name {
				continue
			}
			switch {
			case s.Health == "lost":
				ages = append(ages, bad.Render("signal lost"))
			case s.Age != nil:
				ages = append(ages, "oldest "+span(*s.Age))
			}
			if s.Depth != nil {
				ages = append(ages, fmt.Sprintf("depth %.0f", *s.Depth))
			}
		}
		lines = append(lines, join(heading.Render("Queue "+name), wait, bar, strings.Join(ages, "  "), note))
		var shares []string
		for _, c := range st.Classes {
			share, ok := q.Shares[c.Class]
			if !ok {
				continue
			}
			text := fmt.Sprintf("%s %.0f%%", c.Class, share*100)
			switch {
			case share <= 0:
				text = bad.Render(text)
			case share < 1:
				text = warning.Render(text)
			}
			shares = append(shares, text)
		}
		lines = append(lines, "  admits "+strings.Join(shares, "  "))
	}
	if len(lines) > 0 {
		lines = append(lines, "")
	}
	return lines
}

const rateColumns = "%9s %10s %9s %9s %12s"

func rateHeading(what string, width int) string {
	return heading.Render(fmt.Sprintf("%-*s "+rateColumns, width, what, "offered/s", "admitted/s", "refused/s", "refused", "in all"))
}

func rateRow(name string, width int, r *rates) string {
	offered := r.AdmitRate + r.ReplayRate + r.RefuseRate
	share := "-"
	if offered > 0 {
		share = fmt.Sprintf("%.0f%%", 100*r.RefuseRate/offered)
	}
	return fmt.Sprintf("%s "+rateColumns, padded(name, width), short(offered), short(r.AdmitRate), short(r.RefuseRate), share, fmt.Sprint(r.Admit+r.Replay+r.Refuse))
}

// padded makes a text exactly so wide.
func padded(s string, width int) string {
	s = lipgloss.NewStyle().MaxWidth(width).Inline(true).Render(s)
	return s + strings.Repeat(" ", max(0, width-lipgloss.Width(s)))
}

func (m *topModel) nameWidth() int {
	room := m.width
	if room >= 120 && topViews[m.view] == "all" {
		room = room/2 - 1
	}
	return min(40, max(12, room-56))
}

func (m *topModel) classes() []string {
	lines := []string{rateHeading("Class", m.nameWidth())}
	for _, c := range m.shown.status.Classes {
		lines = append(lines, rateRow(c.Class, m.nameWidth(), &c.rates))
	}
	return append(lines, "")
}

// ranked is a row of tenants or routes.
type ranked struct {
	name, note string
	*rates
}

func (m *topModel) rank(rows []ranked, field string, most int, heading string) []string {
	matches := matcher(m.filter)
	if m.filter != "" {
		rows = slices.DeleteFunc(rows, func(r ranked) bool { return !matches(map[string]string{field: r.name}) })
	}
	slices.SortStableFunc(rows, func(a, b ranked) int {
		offered := func(r ranked) float64 { return r.AdmitRate + r.ReplayRate + r.RefuseRate }
		switch topOrders[m.order] {
		case "refused":
			return cmp.Or(cmp.Compare(b.RefuseRate, a.RefuseRate), cmp.Compare(b.Refuse, a.Refuse), cmp.Compare(a.name, b.name))
		case "name":
			return cmp.Compare(a.name, b.name)
		}
		return cmp.Or(cmp.Compare(offered(b), offered(a)), cmp.Compare(b.Admit+b.Replay+b.Refuse, a.Admit+a.Replay+a.Refuse), cmp.Compare(a.name, b.name))
	})
	lines := []string{heading}
	for _, r := range rows[:min(len(rows), most)] {
		lines = append(lines, rateRow(printable(r.name), m.nameWidth(), r.rates)+r.note)
	}
	if more := len(rows) - most; more > 0 {
		lines = append(lines, faint.Render(fmt.Sprintf("%d more", more)))
	}
	return append(lines, "")
}

func (m *topModel) tenants(most int) []string {
	var rows []ranked
	for i := range m.shown.status.Tenants {
		t := &m.shown.status.Tenants[i]
		rows = append(rows, ranked{t.Tenant, "", &t.rates})
	}
	return m.rank(rows, "tenant", most, rateHeading("Tenant", m.nameWidth()))
}

func (m *topModel) routes(most int) []string {
	var rows []ranked
	for i := range m.shown.status.Routes {
		r := &m.shown.status.Routes[i]
		note := ""
		if r.Mode == "shadow" {
			note = warning.Render("  shadow")
			if len(r.Shadow) > 0 {
				note += " would refuse " + counts(r.Shadow)
			}
		}
		rows = append(rows, ranked{r.Route, note, &r.rates})
	}
	return m.rank(rows, "route", most, rateHeading("Route", m.nameWidth()))
}

func (m *topModel) store() []string {
	k := m.shown.status.Sections.Keys
	if k == nil {
		return nil
	}
	lines := []string{heading.Render("Idempotency keys"), join(k.Store, fmt.Sprintf("%d running", k.Running))}
	for _, name := range slices.Sorted(maps.Keys(positive(k.Requests))) {
		lines = append(lines, fmt.Sprintf("%-22s %9s %12d", name, "", k.Requests[name]))
	}
	if k.InDoubt > 0 {
		lines = append(lines, warning.Render(fmt.Sprintf("put in doubt: %d", k.InDoubt)))
	}
	if k.Errors+k.Down > 0 {
		lines = append(lines, bad.Render(fmt.Sprintf("%d store errors, %d requests refused for them", k.Errors, k.Down)))
	}
	return append(lines, "")
}

// tail lists the latest decisions, newest first.
func (m *topModel) tail(most int) []string {
	matches := matcher(m.filter)
	heads := fmt.Sprintf("%-8s %-7s %-18s %-16s %-16s %-10s %s", "Decided", "", "reason", "tenant", "route", "class", "answer")
	lines := []string{heading.Render(heads)}
	for _, d := range slices.Backward(m.shown.tail) {
		if len(lines) > most {
			break
		}
		if !matches(d.fields()) {
			continue
		}
		style := lipgloss.NewStyle()
		switch {
		case d.Verdict == "refuse" || d.Failure != "":
			style = bad
		case d.Shadow != "":
			style = warning
		}
		answer := fmt.Sprint(d.Status)
		if d.RetryAfter > 0 {
			answer += fmt.Sprintf(" in %ds", d.RetryAfter)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %s %s %s %s  %s", d.Time.Local().Format(time.TimeOnly), style.Render(padded(d.Verdict, 7)),
			style.Render(padded(d.why(), 18)), padded(printable(d.Tenant), 16), padded(d.Route, 16), padded(d.Class, 10), answer, faint.Render(d.ID)))
	}
	if len(lines) == 1 {
		lines = append(lines, faint.Render("no decision yet that matches"))
	}
	return lines
}

// gauge is a bar of a share of one.
func gauge(share float64, width int) string {
	filled := min(width, max(0, int(share*float64(width)+0.5)))
	style := good
	switch {
	case share >= 1:
		style = bad
	case share >= 0.5:
		style = warning
	}
	return style.Render(strings.Repeat("█", filled)) + faint.Render(strings.Repeat("░", width-filled))
}

// spark is a series as a row of bars, its greatest as high as they get.
func spark(values []float64, width int) string {
	const bars = "▁▂▃▄▅▆▇█"
	values = values[max(0, len(values)-width):]
	if len(values) == 0 {
		return ""
	}
	most := max(slices.Max(values), 1e-9)
	var b strings.Builder
	for _, v := range values {
		at := min(7, max(0, int(v/most*8)))
		b.WriteString(bars[at*3 : at*3+3])
	}
	return b.String()
}

// short is a rate in few characters.
func short(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.1fk", n/1e3)
	case n >= 9.95 || n == 0:
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.1f", n)
}
