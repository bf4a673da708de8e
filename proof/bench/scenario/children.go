package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/rpc"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/keyturn/keyturn/proof/bench/lock"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// process is a child as its parent sees it.
type process struct {
	*rpc.Client
	cmd *exec.Cmd
	log bytes.Buffer // its standard error; read it only after its end
}

// start runs this program again. A child is killed when ctx ends, and ends by itself when its
// parent ends; see [Child].
func start(ctx context.Context) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, program)}
	p.cmd.Env = append(os.Environ(), childEnv+"=1")
	p.cmd.Stderr = &p.log
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.Client = rpc.NewClient(struct {
		io.Reader
		io.WriteCloser
	}{out, in})
	return p, p.cmd.Start()
}

// children are the processes of one measurement.
type children []*process

// startChildren starts n of them and waits until each has its locker open.
func startChildren(ctx context.Context, cfg lock.Config, n int) (all children, err error) {
	defer func() {
		if err != nil {
			closing(&err, all.Close)
		}
	}()
	for range n {
		p, err := start(ctx)
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	for _, p := range all {
		if err := p.Call("child.Open", cfg, new(bool)); err != nil {
			return all, err
		}
	}
	return all, nil
}

// Close ends them all, and waits for their end.
func (all children) Close() (err error) {
	for _, p := range all { // first, so that all of them end at the same time
		err = errors.Join(err, p.Client.Close())
	}
	for _, p := range all {
		if ended := p.cmd.Wait(); ended != nil {
			err = errors.Join(err, fmt.Errorf("process %d: %w: %s", p.cmd.Process.Pid, ended, strings.TrimSpace(p.log.String())))
		}
	}
	return err
}

// contend has all of them contend for the key at the same time.
func (all children) contend(l Load) ([]*hdrhistogram.Histogram, error) {
	var calls []*rpc.Call
	for _, p := range all {
		calls = append(calls, p.Go("child.Contend", l, new(hdrhistogram.Snapshot), nil))
	}
	var waits []*hdrhistogram.Histogram
	var err error
	for _, call := range calls {
		err = errors.Join(err, (<-call.Done).Error)
		waits = append(waits, hdrhistogram.Import(call.Reply.(*hdrhistogram.Snapshot)))
	}
	return waits, err
}

// handover lets two processes pass a key back and forth. It measures from the moment before one
// begins to release it to the moment after the other was told that it has it. Both are on this
// machine, so they have the same clock.
func handover(ctx context.Context, p *place, system string) (_ []stats.Sample, err error) {
	pair, err := startChildren(ctx, p.config(system, 1), 2)
	if err != nil {
		return nil, err
	}
	defer closing(&err, pair.Close)

	holder, waiter := pair[0], pair[1]
	var granted, released time.Time
	if err := holder.Call("child.Lock", hotKey, &granted); err != nil {
		return nil, err
	}
	took := newHistogram()
	for range p.size.Handovers {
		waits := waiter.Go("child.Lock", hotKey, &granted, nil)
		// Until the other process waits. The time varies, because otherwise a process that
		// polls would always be met at the same point of its delay.
		time.Sleep(3*time.Millisecond + rand.N(15*time.Millisecond))
		err := holder.Call("child.Unlock", hotKey, &released)
		if err := errors.Join(err, (<-waits.Done).Error); err != nil {
			return nil, err
		}
		_ = took.RecordValue(int64(max(0, granted.Sub(released)))) // it is in range
		holder, waiter = waiter, holder
	}
	return latencies(took), holder.Call("child.Unlock", hotKey, &released)
}
