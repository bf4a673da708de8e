package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/checktest"
)

var must, check = checktest.Must, checktest.That

// asProgram has the test binary be the program, with all that its processes do
// under the race detector.
const asProgram = "KEYTURN_IM_TEST_AS_PROGRAM=1"

func TestMain(m *testing.M) {
	if os.Getenv("KEYTURN_IM_TEST_AS_PROGRAM") == "" {
		os.Exit(m.Run())
	}
	main()
}

// A run takes some seconds; this is for a machine with much else to do.
const runTimeout = 2 * time.Minute

// program is a run of the program.
type program struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

// command prepares a run. Variables set to nothing are as good as unset.
func command(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	t.Cleanup(cancel)
	p := &program{Cmd: exec.CommandContext(ctx, os.Args[0], args...)}
	// The race detector makes every process sleep for a second before it ends.
	p.Env = append(append(os.Environ(), asProgram, "REDIS_URL=", "GORACE=atexit_sleep_ms=0"), env...)
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	return p
}

// run runs the program to its end and returns its exit code.
func (p *program) run(t *testing.T) int {
	t.Helper()
	if err := p.Run(); p.ProcessState == nil {
		t.Fatal(err)
	}
	return p.ProcessState.ExitCode()
}
