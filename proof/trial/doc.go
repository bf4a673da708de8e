// Package trial makes histories: it runs servers and processes, has faults strike them, and checks
// what the processes wrote down.
package trial
