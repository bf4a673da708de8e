package report

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Progress shows a person how far the run is: on a terminal with a moving bar, elsewhere with a
// line per scenario.
type Progress struct {
	out      io.Writer
	terminal bool

	mu       sync.Mutex
	scenario string
	since    time.Time
	answered int
	requests int
	drawn    time.Time // when the bar was last drawn; zero: there is no bar
}

// NewProgress makes a Progress that writes to out.
func NewProgress(out io.Writer, terminal bool) *Progress {
	return &Progress{out: out, terminal: terminal}
}

// Say writes a line. It ignores errors.
func (p *Progress) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.say(format, args...)
}

// Begin implements load.Progress.
func (p *Progress) Begin(scenario string, requests int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scenario, p.since, p.answered, p.requests = scenario, time.Now(), 0, requests
	p.draw()
}

// Answered implements load.Progress.
func (p *Progress) Answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered++
	// Often enough for a moving bar, and not more often, because terminals are slow.
	if time.Since(p.drawn) > 50*time.Millisecond {
		p.draw()
	}
}

// End implements load.Progress.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.say("  %-24s %5d requests  %5.1f s", p.scenario, p.answered, time.Since(p.since).Seconds())
}

// Stop removes the bar of an unfinished scenario.
func (p *Progress) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *Progress) say(format string, args ...any) {
	p.clear()
	fmt.Fprintf(p.out, format+"\n", args...)
}

func (p *Progress) clear() {
	if !p.drawn.IsZero() {
		fmt.Fprint(p.out, clearLine)
		p.drawn = time.Time{}
	}
}

const (
	clearLine = "\r\x1b[K"
	barWidth  = 30
)

func (p *Progress) draw() {
	if !p.terminal {
		return
	}
	full := barWidth * p.answered / max(1, p.requests)
	bar := strings.Repeat("█", full) + strings.Repeat("·", barWidth-full)
	fmt.Fprintf(p.out, "%s  %-24s %5d of %-5d  %s", clearLine, p.scenario, p.answered, p.requests, bar)
	p.drawn = time.Now()
}
