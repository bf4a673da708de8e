//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/cmd/keyturn/internal/supervise"
	"github.com/keyturn/keyturn/cmd/keyturn/internal/table"
	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/experimental/carry"
)

// mostOutput is how much of the standard output is on record.
const mostOutput = 64 << 10

// recorded is the head of a record. The output follows it, after a line break.
type recorded struct {
	Status int  `json:"status"`
	Cut    bool `json:"cut"` // there was more output
}

func (a *app) onceCommand() *cobra.Command {
	var f runFlags
	var retention time.Duration
	var failures bool
	cmd := &cobra.Command{
		Use:   "once KEY [flags] -- CMD ARGS...",
		Short: "Run a program unless it is on record; then replay its output and status",
		Long: `Run a program unless it is on record for the key. If it is, its standard output (64 KiB at most) and its
status come from the record. While one process runs it, others wait for the record.

Only success is recorded, unless --record-failures; a program that was stopped by a signal or with its lease never
is. A crash between the program's effect and the record makes it run again. Statuses are those of run; 66: the program
ran before, but the store had no room for its output.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, argv := splitArgs(cmd, args)
			if len(keys) != 1 {
				return usage("want %s", cmd.UseLine())
			}
			opts, err := f.check(cmd, argv)
			if err != nil {
				return err
			}
			opts = append(opts, core.WithRetention(retention), core.WithResultLimit(mostOutput+1<<10))
			sigs, ctx := catch(cmd.Context())
			return ended(ctx, a.withEngine(ctx, func(eng *core.Engine) error {
				return a.once(ctx, sigs, eng, keys[0], &f, failures)
			}, opts...))
		},
		ValidArgsFunction: a.completeKeys,
	}
	f.add(cmd, "cli:once")
	cmd.Flags().DurationVar(&retention, "retention", 24*time.Hour, "how long the record is kept")
	cmd.Flags().BoolVar(&failures, "record-failures", false, "also record a status other than 0")
	return cmd
}

// errNotRecorded ends an execution that is not to be on record.
var errNotRecorded = errors.New("not recorded")

func (a *app) once(ctx context.Context, sigs *signals, eng *core.Engine, key string, f *runFlags, failures bool) error {
	ctx = carry.Accept(ctx, os.Getenv(leasesVar)) // within its own key it would wait for itself
	stopProgress := func() {}
	if !f.quiet {
		stopProgress = a.progress(ctx, eng, []string{key})
	}
	var result supervise.Result
	var failed error
	ran := false
	outcome, err := eng.Once(ctx, key, func(within context.Context) ([]byte, error) {
		stopProgress()
		passed, err := sigs.running(ctx)
		if err != nil {
			return nil, err
		}
		ran = true
		lease, _ := core.LeaseFrom(within) // Once has one
		var record []byte
		result, record, failed = a.captured(lease, f, passed)
		switch {
		case failed != nil:
			return nil, failed
		case result.Stopped != nil, !result.Status.Exited(), result.Status.ExitStatus() != 0 && !failures:
			return nil, errNotRecorded
		}
		return record, nil
	}, core.WithRule(f.rule))
	stopProgress()
	switch {
	case failed != nil:
		return failed
	case ran && errors.Is(err, core.ErrOutcomeUnknown):
		a.say("%s may not be on record, so the program may run again: %v", table.Safe(key), err)
		return cmp.Or(a.statusOfProgram(result, nil), error(&exitError{status: statusOf(err)}))
	case ran:
		var released error
		if !errors.Is(err, errNotRecorded) {
			released = err
		}
		return a.statusOfProgram(result, released)
	case errors.Is(err, core.ErrResultNotKept):
		return exit(statusNothing, "%s is on record, but the store had no room for the output and the status", table.Safe(key))
	case err != nil:
		return a.waitFailed(err, f)
	}
	return a.replay(key, outcome.Result, f)
}

// captured runs the program and keeps the beginning of its standard output, which is also passed on as
// it comes.
func (a *app) captured(lease *core.Lease, f *runFlags, sigs <-chan os.Signal) (supervise.Result, []byte, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return supervise.Result{}, nil, exit(statusBug, "%v", err)
	}
	kept := &head{most: mostOutput, next: a.stdout}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(kept, read)
		// The deadline may have come while the reader of our own output was slow.
		_, _ = kept.Write(left(read))
		if kept.lost != nil && !errors.Is(kept.lost, syscall.EPIPE) { // a reader that has gone is no failure of the program
			a.say("not all of the output was passed on: %v", kept.lost)
		}
	}()
	result, err := a.supervised(lease, f, sigs, write)
	_ = write.Close() // nothing was written here
	// The group is dead, so the pipe has all of its output. A process outside of the group may keep the pipe open.
	_ = read.SetReadDeadline(time.Now())
	<-copied
	_ = read.Close()
	if err != nil {
		return result, nil, err
	}
	record, _ := json.Marshal(recorded{Status: result.Status.ExitStatus(), Cut: kept.cut}) // can't fail: a number and a bool
	return result, append(append(record, '\n'), kept.b.Bytes()...), nil
}

// mostPiped is how much a pipe has at most: on Linux a program may enlarge it.
const mostPiped = 1 << 20

// left returns what a pipe has, without a wait.
func left(pipe *os.File) []byte {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return nil
	}
	b, n := make([]byte, mostPiped), 0
	_ = conn.Control(func(fd uintptr) { n, _ = syscall.Read(int(fd), b) }) // -1: it is empty, and others have it open
	return b[:max(0, n)]
}

// head keeps the beginning of what is written to it, and passes all of it on for as long as next takes it.
type head struct {
	b    bytes.Buffer
	most int
	cut  bool
	next io.Writer
	lost error // next's
}

func (h *head) Write(p []byte) (int, error) {
	room := min(len(p), h.most-h.b.Len())
	h.cut = h.cut || room < len(p)
	h.b.Write(p[:room])
	if h.lost == nil {
		_, h.lost = h.next.Write(p)
	}
	return len(p), nil
}

// replay writes what is on record.
func (a *app) replay(key string, record []byte, f *runFlags) error {
	first, output, _ := bytes.Cut(record, []byte("\n"))
	var r recorded
	if err := json.Unmarshal(first, &r); err != nil {
		return exit(statusBug, "%s is on record, but not by keyturn once", table.Safe(key))
	}
	if !f.quiet {
		a.say("%s is on record, so the program was not run again", table.Safe(key))
	}
	if _, err := a.stdout.Write(output); err != nil {
		return err
	}
	if r.Cut {
		a.say("the output went on; the record has its first %d bytes", len(output))
	}
	if r.Status == 0 {
		return nil
	}
	return &exitError{status: r.Status}
}
