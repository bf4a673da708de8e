// Package who names the processes behind the owners of leases. An owner is new for each
// acquisition, but people look for processes.
package who
