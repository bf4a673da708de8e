package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/driver"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check the store: reachable, permitted, settings that may cost locks",
		Long: `Check the store: whether it answers and how fast, what the account may do, what the store can do, how far its clock
is from this machine's, and each setting that the store's page, docs/operations*.md, warns of. It takes and releases locks on keys of its own.

The status is 1 if there is a risk.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withEngine(cmd.Context(), func(eng *core.Engine) error {
				return a.report(a.examine(cmd.Context(), eng))
			}, core.WithMaxWait(a.timeout))
		},
	}
}

// examine looks at what all stores have in common, then has the store look at its own.
func (a *app) examine(ctx context.Context, eng *core.Engine) []driver.Finding {
	about := author.Describe(eng)
	u, _ := a.url() // it was opened
	all := []driver.Finding{
		{About: "store", Found: u.String()},
		{About: "capabilities", Found: capabilities(about)},
		{About: "TTL", Found: bounds(about.TTLs)},
	}
	var own []driver.Finding
	if about.Examine != nil {
		within, cancel := context.WithTimeout(ctx, max(a.timeout, 30*time.Second)) // each of its parts has a bound of its own
		own = about.Examine(within)
		cancel()
	}
	if len(own) == 1 && own[0].About == "server" && own[0].Risk != "" {
		return append(all, own...) // no server lets us in, and the rest would say it in worse words
	}
	all = append(all, tryLock(ctx, eng)...)
	all = append(all, tryLooking(ctx, eng))
	return append(all, own...)
}

func capabilities(about driver.Description) string {
	all := []string{"exclusive"}
	for _, c := range []struct {
		name string
		has  bool
	}{
		{"shared", about.Shared},
		{"permits", about.Permits},
		{"sets", about.Sets},
		{"order across processes", !about.Unordered},
		{"records", about.Ledger},
		{"inspection", about.Inspector},
		{"min hold", about.MinHold},
		{"linger", about.OnWanted != nil},
	} {
		if c.has {
			all = append(all, c.name)
		}
	}
	return strings.Join(all, ", ")
}

func bounds(t driver.TTLs) string {
	least, most := max(t.Least, driver.MinTTL), driver.MaxTTL
	if t.Most > 0 {
		most = min(most, t.Most)
	}
	text := fmt.Sprintf("%v to %v", least, most)
	if t.Step > 0 {
		text += fmt.Sprintf(", in steps of %v", t.Step)
	}
	return text
}

const (
	slowTrip = 100 * time.Millisecond
	farClock = time.Minute
	trips    = 5
)

// tryLock takes and releases locks. Tokens follow the clock of the store in microseconds, so a token
// also tells that clock.
func tryLock(ctx context.Context, eng *core.Engine) []driver.Finding {
	var took []time.Duration
	var skew time.Duration
	for range trips {
		begin := time.Now()
		lease, err := eng.TryAcquire(ctx, "keyturn:doctor:"+rand.Text(), core.WithRule("cli:doctor"))
		if err != nil {
			return []driver.Finding{{About: "lock", Risk: err.Error(), Advice: adviceFor(err)}}
		}
		took = append(took, time.Since(begin))
		skew = time.UnixMicro(int64(lease.Token())).Sub(begin)
		if err := lease.Release(ctx); err != nil {
			return []driver.Finding{{About: "release", Risk: err.Error(), Advice: adviceFor(err)}}
		}
	}
	slices.Sort(took)
	trip := driver.Finding{About: "lock", Found: fmt.Sprintf("granted in %v", took[trips/2].Round(10*time.Microsecond))}
	if took[trips/2] > slowTrip {
		trip.Risk, trip.Advice = "every lock costs this time", "run the store near the services that use it"
	}
	clock := driver.Finding{About: "clock", Found: fmt.Sprintf("%+.1fs", skew.Seconds())}
	if skew.Abs() > farClock {
		clock.Risk = "the store's clock, or that of this machine, is wrong; a jump ends leases early or late"
		clock.Advice = "synchronize the clocks, without steps"
	}
	return []driver.Finding{trip, clock}
}

// tryLooking wants to list and to inspect.
func tryLooking(ctx context.Context, eng *core.Engine) driver.Finding {
	f := driver.Finding{About: "inspection", Found: "ok"}
	_, err := eng.Inspect(ctx, "keyturn:doctor")
	if err == nil {
		for _, listed := range eng.List(ctx, "keyturn:doctor:") {
			if err = listed; err != nil {
				break
			}
		}
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		f.Found = "not supported by this store"
	case err != nil:
		f.Found, f.Risk, f.Advice = "", err.Error(), adviceFor(err)
	}
	return f
}

func adviceFor(err error) string {
	switch statusOf(err) {
	case statusForbidden:
		return "see the permissions in docs/cli.md, and in the page of the store: docs/operations*.md"
	case statusUnavailable:
		if out := (*core.UnavailableError)(nil); errors.As(err, &out) && out.Refused {
			break // it has answered
		}
		return "check the address, the network, and whether the server runs"
	}
	return "see the page of the store: docs/operations*.md"
}

// finding is the JSON of a finding.
type finding struct {
	About  string `json:"about"`
	Found  string `json:"found"`
	OK     bool   `json:"ok"`
	Risk   string `json:"risk"`
	Advice string `json:"advice"`
}

func (a *app) report(all []driver.Finding) error {
	rows, risks := make([]finding, len(all)), 0
	for i, f := range all {
		rows[i] = finding{f.About, f.Found, f.Risk == "", f.Risk, f.Advice}
		if f.Risk != "" {
			risks++
		}
	}
	if err := a.writeFindings(rows); err != nil {
		return err
	}
	if risks > 0 {
		return exit(statusNo, "%d of %d checks found a risk", risks, len(all))
	}
	return nil
}

func (a *app) writeFindings(rows []finding) error {
	if done, err := jsonRows(a, rows); done {
		return err
	}
	t := a.table("STATE", "ABOUT", "FOUND", "RISK", "ADVICE")
	for _, f := range rows {
		state := "ok"
		switch {
		case !f.OK:
			state = "RISK"
		case f.Found == "":
			state, f.Found = "?", "can't be read"
		}
		t.Row(state, f.About, f.Found, f.Risk, f.Advice)
	}
	return t.Flush()
}
