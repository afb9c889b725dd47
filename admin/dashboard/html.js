// The two functions every view is written with.
import {h} from './vendor/preact.module.js';
import htm from './vendor/htm.module.js';

export {Component, render, createRef} from './vendor/preact.module.js';
export const html = htm.bind(h);
