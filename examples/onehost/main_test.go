package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The test binary is the program, if it is told so.
func TestMain(m *testing.M) {
	if os.Getenv("KEYTURN_TEST_ONEHOST") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// start starts a process on the file. Its output goes to out.
func start(t *testing.T, out io.Writer, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "KEYTURN_TEST_ONEHOST=1")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestProcessesTakeTurns: one of the processes is killed in its turn. The others go on when its lease
// has run out. All of them know of the same backup.
func TestProcessesTakeTurns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "locks.db")
	read, write := io.Pipe()
	lines := bufio.NewScanner(read)
	victim := start(t, write, "-file", file, "-lasts", "1h")
	if !lines.Scan() || !strings.Contains(lines.Text(), "has turn") {
		t.Fatalf("the first process says %q", lines.Text())
	}
	killed := time.Now()
	_ = victim.Process.Kill()
	_ = victim.Wait()
	ended := make(chan error, 3)
	for range 3 {
		cmd := start(t, write, "-file", file, "-lasts", "20ms")
		go func() { ended <- cmd.Wait() }()
	}
	go func() {
		var err error
		for range 3 {
			if failed := <-ended; failed != nil {
				err = failed
			}
		}
		_ = write.CloseWithError(err) // nil: EOF
	}()
	turns, backups := 0, map[string]int{}
	var inside string // who has the turn
	for lines.Scan() {
		line := lines.Text()
		var pid, token int
		switch {
		case strings.Contains(line, " has turn "):
			if inside != "" {
				t.Errorf("%q while %s has the turn", line, inside)
			}
			if turns++; turns == 1 && time.Since(killed) < 2*time.Second {
				t.Errorf("the next has the key after %v", time.Since(killed))
			}
			fmt.Sscanf(line, "process %d has turn %d", &pid, &token)
			inside = fmt.Sprintf("process %d is done with turn %d", pid, token)
		case strings.Contains(line, " is done with turn "):
			if line != inside {
				t.Errorf("%q, want %q", line, inside)
			}
			inside = ""
		default:
			backups[line]++
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	if turns != 9 || len(backups) != 1 {
		t.Errorf("%d turns, want 9; the backup: %v", turns, backups)
	}
}
