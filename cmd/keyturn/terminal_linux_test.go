package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a new terminal: what is written to it is typed.
func terminal(t *testing.T) (typed, screen *os.File) {
	t.Helper()
	typed, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { _ = typed.Close() })
	n, err := unix.IoctlGetInt(int(typed.Fd()), unix.TIOCGPTN)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(int(typed.Fd()), unix.TIOCSPTLCK, 0))
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { _ = screen.Close() })
	return typed, screen
}

func onTerminal(t *testing.T, args ...string) (*process, *os.File) {
	t.Helper()
	return command(t, args...).onTerminal()
}

// onTerminal starts the process as the foreground job of a new terminal, as a shell does.
func (p *process) onTerminal() (*process, *os.File) {
	p.t.Helper()
	typed, screen := terminal(p.t)
	p.Stdin, p.Stdout, p.Stderr = screen, screen, screen
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	out := &p.stdout
	go func() { _, _ = io.Copy(out, typed) }() // it ends with the terminal
	return p.start(), typed
}

// On a terminal the program has the foreground: it reads what is typed, and gets Ctrl-C and Ctrl-Z
// itself. Ctrl-Z stops the whole job. The line about the wait is erased before the program writes.
func TestTerminal(t *testing.T) {
	store := onRedis(t)
	lease := held(t, engine(t, store), "k")
	// exec, because Ctrl-Z may come while sh starts a process with vfork. That process then stops before
	// it runs, and sh waits for it without stopping.
	p, typed := onTerminal(t, "--store", store, "run", "k", "--", "sh", "-c", "echo pid $$; read x; echo got $x; exec sleep 60")
	p.says("waiting for k")
	must(t, lease.Release(t.Context()))
	p.says("\x1b[Kpid")
	child := pids(p.stdout.String())[0]
	fmt.Fprintln(typed, "hello")
	p.says("got hello")
	fmt.Fprint(typed, "\x1a") // Ctrl-Z
	await(t, "both are stopped", func() bool { return state(child) == "T" && state(p.Process.Pid) == "T" })
	if err := p.Process.Signal(syscall.SIGCONT); err != nil { // as fg does
		t.Fatal(err)
	}
	await(t, "both go on", func() bool { return state(child) != "T" && state(p.Process.Pid) != "T" })
	await(t, "the program has the terminal again", func() bool {
		front, err := unix.IoctlGetInt(int(typed.Fd()), unix.TIOCGPGRP)
		return err == nil && front == child
	})
	fmt.Fprint(typed, "\x03") // Ctrl-C
	p.ends(128 + int(syscall.SIGINT))
}

// As a job of a shell: in the background it stops when its program reads, and goes on with fg. The shell
// keeps the terminal when a program ends in the background.
func TestJobs(t *testing.T) {
	inner := command(t, "--store", onRedis(t), "run", "k", "--", "sh", "-c", "echo pid $$ pid $PPID; read x; echo got $x; exec sleep 60")
	p := command(t)
	p.Path, p.Args = "/bin/sh", append([]string{"sh", "-mc", `"$@" & read go; fg; echo suspended; bg; read last; echo last $last`, "sh"}, inner.Args...)
	p, typed := p.onTerminal()
	p.says("pid")
	job := pids(p.stdout.String())
	stopped := func() bool { return state(job[0]) == "T" && state(job[1]) == "T" }
	await(t, "the job is stopped", stopped)
	fmt.Fprintln(typed, "go")
	await(t, "the job goes on", func() bool { return state(job[0]) != "T" && state(job[1]) != "T" })
	fmt.Fprintln(typed, "hello")
	p.says("got hello")
	fmt.Fprint(typed, "\x1a") // Ctrl-Z
	p.says("suspended")
	await(t, "it goes on in the background", func() bool { return state(job[0]) == "S" && state(job[1]) == "S" })
	must(t, syscall.Kill(job[0], syscall.SIGTERM))
	await(t, "it ends", func() bool { return gone(job) })
	fmt.Fprintln(typed, "word")
	p.ends(0).says("last word")
}

// force asks back on a terminal, in columns.
func TestForceAsks(t *testing.T) {
	store := onRedis(t)
	lease := held(t, engine(t, store), "k")
	for _, c := range []struct {
		answer string
		status int
	}{{"n", 1}, {"", 1}, {"y", 0}} {
		if info, err := engine(t, store).Inspect(t.Context(), "k"); err != nil || len(info.Holders) != 1 {
			t.Fatalf("taken without a yes: %+v, %v", info, err)
		}
		p, typed := onTerminal(t, "--store", store, "force", "k", "--reason", "x")
		p.says("Take the key away? [y/N]")
		fmt.Fprintln(typed, c.answer)
		p.ends(c.status)
	}
	if err := lease.Release(t.Context()); err == nil {
		t.Error("still held after a yes")
	}
	p, _ := onTerminal(t, "--store", store, "ls")
	p.ends(0).says("KEY  MODE")
	check(t, !strings.Contains(p.stdout.String(), "\t"), "%q", p.stdout.String())
}
