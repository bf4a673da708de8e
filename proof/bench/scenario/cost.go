package scenario

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/keyturn/keyturn/proof/bench/stats"
)

// cost is processor time, of user and system together.
type cost struct{ server, client time.Duration }

// metered runs l. The figures also say what each thing cost the servers and this process, without the
// warming up.
func (p *place) metered(ctx context.Context, what string, l Load, do func(ctx context.Context, caller int) (time.Duration, error)) ([]stats.Sample, error) {
	if _, err := (Load{l.Callers, 0, l.Warm}).run(ctx, do); err != nil {
		return nil, err
	}
	before, err := p.spent(ctx)
	if err != nil {
		return nil, err
	}
	did, err := Load{l.Callers, 0, l.Span}.run(ctx, do)
	if err != nil {
		return nil, err
	}
	after, err := p.spent(ctx)
	if err != nil {
		return nil, err
	}
	figures, err := did.figures(what)
	count := float64(did.took.TotalCount())
	if len(p.servers) > 0 { // a database does not say
		figures = append(figures, micros("server CPU", float64(after.server-before.server)/count))
	}
	return append(figures, micros("client CPU", float64(after.client-before.client)/count)), err
}

// spent is the processor time since the servers and this process began.
func (p *place) spent(ctx context.Context) (cost, error) {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return cost{}, fmt.Errorf("processor time of this process: %w", err)
	}
	all := cost{client: time.Duration(own.Utime.Nano() + own.Stime.Nano())}
	for _, server := range p.servers {
		info, err := server.Info(ctx, "cpu").Result()
		if err != nil {
			return cost{}, fmt.Errorf("processor time of the server: %w", err)
		}
		for line := range strings.Lines(info) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if name != "used_cpu_sys" && name != "used_cpu_user" {
				continue
			}
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return cost{}, err
			}
			all.server += time.Duration(seconds * float64(time.Second))
		}
	}
	if all.server == 0 && len(p.servers) > 0 {
		return cost{}, errors.New("the servers do not say what processor time they used")
	}
	return all, nil
}
