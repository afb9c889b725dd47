// Package recording reads decision logs as what they are: recordings from which
// decisions can be made again.
//
// # The model
//
// A [Recording] is one or more files of lines (see package admin): decisions
// with the facts that they depended on, readings of signals, policies that came
// into force, and gaps. [Recording.Events] puts them into the order of the times
// at which things happened; the files are in the order in which requests ended.
//
// Files are read strictly: a line that is no line of a recording, or says what
// cannot be, is an error with its place. Only a last line that was cut off, as
// happens to a file that is still written, is left out and told.
package recording
