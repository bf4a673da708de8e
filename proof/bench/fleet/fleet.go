// Package fleet runs further processes of this program, and talks with them in JSON over their
// standard input and output.
package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// childEnv tells a process that it is a child.
const childEnv = "KEYTURN_BENCH_CHILD"

// IsChild reports whether [Start] started this process.
func IsChild() bool { return os.Getenv(childEnv) != "" }

// Process is a child, for one goroutine of the parent.
type Process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	to  *json.Encoder
	fro *json.Decoder
	log bytes.Buffer // its standard error; read it only after its end
}

// Start runs this program again. A child is killed when ctx ends, and ends by itself when its
// parent ends; see [Serve].
func Start(ctx context.Context) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.CommandContext(ctx, program)}
	p.cmd.Env = append(os.Environ(), childEnv+"=1")
	p.cmd.Stderr = &p.log
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.to, p.fro = json.NewEncoder(p.in), json.NewDecoder(out)
	return p, p.cmd.Start()
}

// Send sends a message to the child.
func (p *Process) Send(message any) error { return p.to.Encode(message) }

// Receive waits for a message from the child.
func (p *Process) Receive(message any) error {
	if err := p.fro.Decode(message); err != nil {
		return fmt.Errorf("no answer from process %d: %w", p.cmd.Process.Pid, err)
	}
	return nil
}

// AskToEnd tells the child that no more messages will come, which ends it.
func (p *Process) AskToEnd() { _ = p.in.Close() } // it may have ended already

// Close ends the child, and waits for its end.
func (p *Process) Close() (err error) {
	p.AskToEnd()
	if ended := p.cmd.Wait(); ended != nil {
		err = errors.Join(err, fmt.Errorf("process %d: %w: %s", p.cmd.Process.Pid, ended, strings.TrimSpace(p.log.String())))
	}
	return err
}

// Serve is a child's main function. work gets the messages of the parent, undecoded, and a
// function that answers. The context of work ends when the parent needs the child no more, or
// is gone. Serve returns the exit code.
func Serve(work func(ctx context.Context, messages <-chan json.RawMessage, answer func(any) error) error) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	messages := make(chan json.RawMessage)
	go func() {
		defer cancel()
		defer close(messages)
		for in := json.NewDecoder(os.Stdin); ; {
			var m json.RawMessage
			if in.Decode(&m) != nil {
				return
			}
			select {
			case messages <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := work(ctx, messages, json.NewEncoder(os.Stdout).Encode); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
